/*
 * The cache of tokenised rows: what the key depends on, round trips, damage at any byte,
 * processes at the same file, disks that do not take it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "data/row.h"
#include "data/row_cache.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lathe-test-cache-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    struct error err;
    return !file_remove_tree(folder, &err);
}

static const struct row_cache_key some_key = {.low = 7, .high = 11};

/* A block of n examples: example i has i % 5 + 2 tokens, the first of them `first` + i. */
static void fill_block(struct row_block *block, int n, int first)
{
    const struct records_options options = {.row_tokens = 8};
    struct row row = {0};
    row_block_clear(block);
    for (int i = 0; i < n; i++) {
        row_clear(&row);
        row_begin_document(&row);
        for (int k = 0; k < i % 5 + 2; k++) {
            row_add(&row, first + i + k, 1.0F);
        }
        row_block_keep(block, &row, (uint32_t)i, &options, -1);
    }
    const struct row_block_view view = row_block_view(block, 0, 0);
    block->hash = row_block_hash(&view);
    row_deinit(&row);
}

/* Two blocks and two faults under some_key; NULL with *err where it fails. */
static struct row_cache *build(const struct row_cache_key *key, struct error *err)
{
    struct row_block block = {0};
    struct row_cache *cache = NULL;
    struct row_cache_writer *writer = row_cache_create(folder, key, err);
    if (writer == NULL) {
        return NULL;
    }
    struct records_counts counts = {.n_rows = 14, .n_bad = 2, .n_examples = 12};
    fill_block(&block, 5, 100);
    bool is_done = row_cache_add(writer, &block, 0, 1, err);
    fill_block(&block, 7, 200);
    is_done = is_done && row_cache_add(writer, &block, 6, 8, err);
    if (is_done) {
        cache = row_cache_finish(writer, &counts, "6: x\n7: y\n", err);
    } else {
        row_cache_abort(writer);
    }
    row_block_deinit(&block);
    return cache;
}

static void assert_content(const struct row_cache *cache)
{
    assert_int_equal(row_cache_n_blocks(cache), 2);
    for (size_t b = 0; b < 2; b++) {
        const struct row_block_view view = row_cache_block(cache, b);
        assert_int_equal(view.n_entries, b == 0 ? 5 : 7);
        for (size_t i = 0; i < view.n_entries; i++) {
            const struct example example = row_block_example(&view, i);
            assert_int_equal(example.n, i % 5 + 2);
            assert_int_equal(example.ids[example.n - 1],
                             (b == 0 ? 100 : 200) + (int)i + example.n - 1);
            assert_int_equal(example.source_row, (b == 0 ? 0 : 6) + i);
            assert_int_equal(example.line, (b == 0 ? 1 : 8) + i);
        }
    }
    assert_int_equal(row_cache_counts(cache)->n_rows, 14);
    assert_int_equal(row_cache_counts(cache)->n_bad, 2);
    assert_string_equal(row_cache_faults(cache), "6: x\n7: y\n");
    row_cache_drop(cache);
}

static struct row_cache *open_or_fail(struct pool *pool)
{
    struct error err = {.message = ""};
    struct row_cache *cache = row_cache_open(folder, &some_key, 8, pool, &err);
    if (cache == NULL) {
        fail_msg("%s", err.message);
    }
    return cache;
}

static void comes_back(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    assert_null(row_cache_open(folder, &some_key, 8, NULL, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    struct row_cache *made = build(&some_key, &err);
    assert_non_null(made);
    assert_content(made);
    struct pool *pool = pool_create(3, &err);
    for (int i = 0; i < 2; i++) {
        struct row_cache *cache = open_or_fail(i == 0 ? pool : NULL);
        assert_content(cache);
        row_cache_close(cache);
    }
    pool_destroy(pool);
    /* Longer examples than this run allows: not ours, whatever the hash says. */
    assert_null(row_cache_open(folder, &some_key, 5, NULL, &err));
    assert_content(made); /* dropped pages come back */
    row_cache_close(made);
    row_cache_close(NULL);
    row_cache_abort(NULL);
}

/* Nothing else stays in the folder, neither after a publication nor after giving up. */
static void nothing_is_left_behind(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    struct row_cache_writer *writer = row_cache_create(folder, &some_key, &err);
    assert_non_null(writer);
    row_cache_abort(writer);
    assert_true(file_is_empty_folder(folder));
    row_cache_close(build(NULL, &err));
    assert_true(file_is_empty_folder(folder));
    row_cache_close(build(&some_key, &err));
    char *path = row_cache_path(folder, &some_key);
    assert_int_equal(unlink(path), 0);
    assert_true(file_is_empty_folder(folder));
    mem_free(path);
}

/* A file without a name serves the process that made it. */
static void without_a_name(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    struct row_cache *cache = build(NULL, &err);
    assert_non_null(cache);
    assert_content(cache);
    row_cache_close(cache);
}

/* Any byte that changes, any length that differs: refused, never trusted. */
static void damage_is_seen(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    row_cache_close(build(&some_key, &err));
    char *path = row_cache_path(folder, &some_key);
    size_t length;
    char *bytes = file_read(path, 1 << 20, &length, &err);
    assert_non_null(bytes);
    const int fd = open(path, O_WRONLY);
    for (size_t at = 0; at < length; at++) {
        const char changed = (char)(bytes[at] ^ (1 << at % 8));
        assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
        struct row_cache *cache = row_cache_open(folder, &some_key, 8, NULL, &err);
        if (cache != NULL) {
            fail_msg("byte %zu of %zu can change", at, length);
        }
        assert_int_equal(err.kind, ERROR_DATA);
        assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
    }
    row_cache_close(open_or_fail(NULL));
    for (size_t cut = length; cut-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)cut), 0);
        assert_null(row_cache_open(folder, &some_key, 8, NULL, &err));
    }
    close(fd);
    char *longer = mem_alloc(length + 8);
    memcpy(longer, bytes, length);
    assert_true(file_write_atomic(path, longer, length + 8, &err));
    assert_null(row_cache_open(folder, &some_key, 8, NULL, &err));
    assert_non_null(strstr(err.message, path));
    /* Building again puts a good one over it. */
    row_cache_close(build(&some_key, &err));
    struct row_cache *cache = open_or_fail(NULL);
    assert_content(cache);
    row_cache_close(cache);
    mem_free(longer);
    mem_free(bytes);
    mem_free(path);
}

/* Several processes build and open the same key; each sees a whole file at any time. */
static void processes_share_a_folder(void **state)
{
    (void)state;
    enum { N_PROCESSES = 4, N_ROUNDS = 20 };
    pid_t children[N_PROCESSES];
    for (int i = 0; i < N_PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct error err = {.message = ""};
            bool is_good = true;
            for (int round = 0; round < N_ROUNDS && is_good; round++) {
                struct row_cache *made = build(&some_key, &err);
                struct row_cache *found =
                    row_cache_open(folder, &some_key, 8, NULL, &err);
                is_good =
                    made != NULL && found != NULL && row_cache_n_blocks(found) == 2;
                row_cache_close(made);
                row_cache_close(found);
            }
            _exit(is_good ? 0 : 1);
        }
    }
    for (int i = 0; i < N_PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    char *path = row_cache_path(folder, &some_key);
    assert_int_equal(unlink(path), 0);
    assert_true(file_is_empty_folder(folder));
    mem_free(path);
}

static void folders_that_cannot_be(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    char *file = file_join(folder, "file");
    char *below = file_join(folder, "file/cache");
    assert_true(file_write_atomic(file, "x", 1, &err));
    assert_null(row_cache_create(below, &some_key, &err));
    assert_non_null(strstr(err.message, file));
    mem_free(file);
    mem_free(below);
}

/* In a process of its own, as the limit stays: a file may get no longer than n bytes, for
 * every n. True when each build failed with the right words and left nothing. */
static bool fails_at_any_byte(void)
{
    struct error err = {.message = ""};
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return false;
    }
    for (limit.rlim_cur = 0; limit.rlim_cur < 1 << 14; limit.rlim_cur++) {
        setrlimit(RLIMIT_FSIZE, &limit);
        struct row_cache *cache = build(&some_key, &err);
        if (cache != NULL) {
            row_cache_close(cache);
            return limit.rlim_cur > 300;
        }
        if (strstr(err.message, folder) == NULL ||
            strstr(err.message, "data.cache") == NULL ||
            !file_is_empty_folder(folder)) {
            return false;
        }
    }
    return false;
}

/* A disk that takes no more: an error that names the folder, and no file (G3). */
static void writes_that_fail(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(fails_at_any_byte() ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool differ(const struct records_options *a, const struct records_options *b,
                   const struct tokenizer *tokenizer)
{
    const struct line_hash file = {.low = 1, .high = 2};
    const struct row_cache_key x = row_cache_key(&file, a, tokenizer);
    const struct row_cache_key y = row_cache_key(&file, b, tokenizer);
    return x.low != y.low || x.high != y.high;
}

/* Everything that decides what rows become is in the key; what does not is not. */
static void keys(void **state)
{
    (void)state;
    static const char *const ignored[] = {"a", "b"};
    static const char *const other_ignored[] = {"ab"};
    struct tokenizer *tokenizer = tokenizer_build_small();
    const struct records_options base = {.format = RECORDS_INSTRUCTION,
                                         .template_text = "{x}",
                                         .response = "y",
                                         .ignore = ignored,
                                         .n_ignore = 2,
                                         .row_tokens = 8};
    struct records_options other[12];
    for (size_t i = 0; i < ARRAY_LENGTH(other); i++) {
        other[i] = base;
    }
    other[0].format = RECORDS_TEXT;
    other[1].template_text = "{x}y";
    other[1].response = "";
    other[2].template_text = NULL;
    other[3].response = "yy";
    other[4].n_ignore = 1;
    other[5].ignore = other_ignored;
    other[5].n_ignore = 1;
    other[6].ends_with_eos = true;
    other[7].loss_on = RECORDS_LOSS_ON_ALL;
    other[8].overlong = RECORDS_DROP;
    other[9].row_tokens = 9;
    other[10].max_rows = 1;
    other[11].n_vocabulary = 300;
    for (size_t i = 0; i < ARRAY_LENGTH(other); i++) {
        assert_true(differ(&base, &other[i], tokenizer));
        for (size_t k = 0; k < i; k++) {
            assert_true(differ(&other[k], &other[i], tokenizer));
        }
    }
    struct records_options same = base;
    same.max_bad_rows = 5;
    same.chat_format = CHAT_GEMMA4;
    assert_false(differ(&base, &same, tokenizer));
    same.format = RECORDS_CHAT;
    struct records_options chat = same;
    chat.chat_format = CHAT_GEMMA3;
    assert_true(differ(&chat, &same, tokenizer));

    const struct line_hash a = {.low = 1, .high = 2};
    const struct line_hash b = {.low = 2, .high = 1};
    const struct row_cache_key with = row_cache_key(&a, &base, tokenizer);
    assert_true(with.low != row_cache_key(&b, &base, tokenizer).low);
    assert_true(with.low != row_cache_key(&a, &base, NULL).low);
    tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(nothing_is_left_behind, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(without_a_name, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damage_is_seen, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(processes_share_a_folder, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(folders_that_cannot_be, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(writes_that_fail, make_folder, remove_folder),
        cmocka_unit_test(keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
