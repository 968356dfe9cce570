/*
 * Files of rows through the cache: the same examples as without it, tokenised once (C20);
 * damage, missing folders and broken rows; memory that does not grow with the file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "data/loader.h"
#include "data/records.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

static char folder[64];
static char *rows_path;
static char *cache_folder;
static struct tokenizer *small;

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lathe-test-open-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    rows_path = file_join(folder, "rows.jsonl");
    cache_folder = file_join(folder, "cache/of rows");
    small = tokenizer_build_small();
    setenv("XDG_CACHE_HOME", folder, 1);
    log_set_level(LOG_ERROR);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    struct error err;
    tokenizer_destroy(small);
    mem_free(rows_path);
    mem_free(cache_folder);
    log_set_level(LOG_NOTE);
    return !file_remove_tree(folder, &err);
}

static void write_rows(const struct str *text)
{
    FILE *file = fopen(rows_path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(str_text(text), 1, text->length, file), text->length);
    fclose(file);
}

/* n rows of text; every `bad_every`-th is broken (0: none). */
static void write_text_rows(int n, int bad_every)
{
    struct str text = {0};
    for (int i = 0; i < n; i++) {
        if (bad_every > 0 && i % bad_every == bad_every - 1) {
            str_add(&text, "{\"text\": 5}\n");
        } else {
            str_printf(&text, "{\"text\": \"Row %d is the %d of What\"}\n", i, i * 7);
        }
    }
    write_rows(&text);
    str_deinit(&text);
}

static const struct records_options text_rows = {.format = RECORDS_TEXT,
                                                 .row_tokens = 32};

static void open_or_fail(struct records *records, const struct records_options *options,
                         const char *cache, int n_threads)
{
    struct error err = {.message = ""};
    struct pool *pool = n_threads == 0 ? NULL : pool_create(n_threads, &err);
    const struct records_reading reading = {
        .pool = pool, .cache_folder = cache, .weight = 1.5};
    if (!records_open_file(records, rows_path, options, small, &reading, &err)) {
        fail_msg("%s", err.message);
    }
    pool_destroy(pool);
}

static void assert_same(const struct records *a, const struct records *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(&a->counts, &b->counts, sizeof(a->counts));
    for (size_t i = 0; i < a->n; i++) {
        const struct example x = records_example(a, i);
        const struct example y = records_example(b, i);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.ids, y.ids, (size_t)x.n * sizeof(*x.ids));
        assert_memory_equal(x.loss_weight, y.loss_weight,
                            (size_t)x.n * sizeof(*x.loss_weight));
        assert_int_equal(x.n_documents, y.n_documents);
        assert_memory_equal(x.document_from, y.document_from,
                            (size_t)x.n_documents * sizeof(*x.document_from));
        assert_int_equal(x.n_targets, y.n_targets);
        assert_int_equal(x.source_row, y.source_row);
        assert_int_equal(x.line, y.line);
        assert_int_equal(a->lengths[i], x.n);
        assert_int_equal(b->target_counts[i], x.n_targets);
    }
}

/* The only file of a folder, its path freed with mem_free; NULL: there is none. */
static char *only_file(const char *path)
{
    char *found = NULL;
    DIR *entries = opendir(path);
    for (const struct dirent *entry;
         entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.') {
            assert_null(found);
            found = file_join(path, entry->d_name);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    return found;
}

static void once_and_the_same(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    struct records plain = {0};
    write_text_rows(3000, 0);
    assert_true(records_read_file(&plain, rows_path, &text_rows, small, &err));
    assert_int_equal(plain.n, 3000);
    for (int round = 0; round < 3; round++) {
        struct records records = {0};
        open_or_fail(&records, &text_rows, cache_folder, round == 1 ? 0 : 3);
        assert_int_equal(records.sources[0].is_cached, round > 0);
        assert_true(records.sources[0].is_kept);
        assert_true(records.sources[0].weight == 1.5);
        assert_string_equal(records.sources[0].name, rows_path);
        assert_same(&plain, &records);
        records_drop(&records);
        assert_same(&plain, &records);
        records_deinit(&records);
    }
    /* One file for one key, byte for byte the same at any number of threads. */
    char *path = only_file(cache_folder);
    size_t length;
    size_t length_again;
    char *bytes = file_read(path, SIZE_MAX, &length, &err);
    assert_int_equal(unlink(path), 0);
    struct records records = {0};
    open_or_fail(&records, &text_rows, cache_folder, 0);
    assert_false(records.sources[0].is_cached);
    records_deinit(&records);
    char *again = file_read(path, SIZE_MAX, &length_again, &err);
    assert_non_null(again);
    assert_int_equal(length, length_again);
    assert_memory_equal(bytes, again, length);
    mem_free(bytes);
    mem_free(again);
    mem_free(path);
    records_deinit(&plain);
}

/* The place of the file is not in the key, its bytes are. */
static void by_content(void **state)
{
    (void)state;
    write_text_rows(10, 0);
    for (int i = 0; i < 4; i++) {
        struct records records = {0};
        if (i == 1) {
            char *other = file_join(folder, "other.jsonl");
            assert_int_equal(rename(rows_path, other), 0);
            mem_free(rows_path);
            rows_path = other;
        } else if (i == 2) {
            write_text_rows(11, 0);
        }
        open_or_fail(&records, &text_rows, cache_folder, 0);
        assert_int_equal(records.sources[0].is_cached, i == 1 || i == 3);
        assert_int_equal(records.n, i < 2 ? 10 : 11);
        records_deinit(&records);
    }
}

/* A small file needs no cache; a larger one goes to the user's cache folder. */
static void small_files_stay_in_memory(void **state)
{
    (void)state;
    char *users = file_join(folder, "lathe/rows");
    write_text_rows(100, 0);
    struct records records = {0};
    open_or_fail(&records, &text_rows, NULL, 0);
    assert_null(only_file(users));
    write_text_rows(26000, 0);
    open_or_fail(&records, &text_rows, NULL, 2);
    char *path = only_file(users);
    assert_non_null(path);
    assert_int_equal(records.n_sources, 2);
    assert_int_equal(records.n, 26100);
    assert_int_equal(records.sources[1].first, 100);
    assert_true(!records.sources[0].is_kept && records.sources[1].is_kept);
    struct error err;
    char *chosen = records_cache_folder(NULL, &err);
    assert_string_equal(chosen, users);
    mem_free(chosen);
    assert_int_equal(records_example(&records, 99).source, 0);
    assert_int_equal(records_example(&records, 100).source, 1);
    assert_int_equal(records.counts.n_rows, 26100);
    records_deinit(&records);
    mem_free(path);
    mem_free(users);
}

/* Without a cache folder of the user's a run goes on; a named one must be usable. */
static void folders_that_cannot_be(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    write_text_rows(26000, 0);
    char *below_file = file_join(rows_path, "cache");
    setenv("XDG_CACHE_HOME", below_file, 1);
    for (int i = 0; i < 2; i++) {
        struct records records = {0};
        open_or_fail(&records, &text_rows, NULL, 0);
        assert_int_equal(records.n, 26000);
        assert_false(records.sources[0].is_cached);
        assert_false(records.sources[0].is_kept);
        records_deinit(&records);
        unsetenv("XDG_CACHE_HOME");
        setenv("HOME", "nowhere", 1);
    }
    struct records records = {0};
    const struct records_reading reading = {.cache_folder = below_file, .weight = 1};
    assert_false(
        records_open_file(&records, rows_path, &text_rows, small, &reading, &err));
    assert_non_null(strstr(err.message, "data.cache"));
    assert_non_null(strstr(err.message, rows_path));
    records_deinit(&records);
    mem_free(below_file);
}

static void damage_is_repaired(void **state)
{
    (void)state;
    struct records plain = {0};
    struct error err = {.message = ""};
    write_text_rows(500, 0);
    assert_true(records_read_file(&plain, rows_path, &text_rows, small, &err));
    for (int i = 0; i < 4; i++) {
        struct records records = {0};
        open_or_fail(&records, &text_rows, cache_folder, 2);
        assert_int_equal(records.sources[0].is_cached, i % 2 == 1);
        assert_same(&plain, &records);
        records_deinit(&records);
        if (i == 1) {
            char *path = only_file(cache_folder);
            const int fd = open(path, O_WRONLY);
            assert_int_equal(pwrite(fd, "xxxx", 4, 1000), 4);
            close(fd);
            mem_free(path);
        }
    }
    records_deinit(&plain);
}

/* Broken rows count against the limit of this run, cached or not. */
static void broken_rows(void **state)
{
    (void)state;
    struct records_options options = text_rows;
    write_text_rows(500, 200); /* rows 199 and 399 */
    options.max_bad_rows = 2;
    for (int i = 0; i < 2; i++) {
        struct records records = {0};
        open_or_fail(&records, &options, cache_folder, 2);
        assert_int_equal(records.sources[0].is_cached, i);
        assert_int_equal(records.n, 498);
        assert_int_equal(records.counts.n_bad, 2);
        assert_int_equal(records_example(&records, 199).source_row, 200);
        assert_int_equal(records_example(&records, 199).line, 201);
        records_deinit(&records);
    }
    for (int most = 1; most >= 0; most--) {
        struct records records = {0};
        struct error err = {.message = ""};
        const struct records_reading reading = {.cache_folder = cache_folder,
                                                .weight = 1};
        char where[100];
        options.max_bad_rows = most;
        assert_false(
            records_open_file(&records, rows_path, &options, small, &reading, &err));
        snprintf(where, sizeof(where), "%s:%d: column 2: field", rows_path,
                 most == 1 ? 400 : 200);
        assert_non_null(strstr(err.message, where));
        records_deinit(&records);
    }
}

/* Shared sets and choices over a cache. */
static void chosen_examples(void **state)
{
    (void)state;
    struct records records = {0};
    write_text_rows(30, 0);
    open_or_fail(&records, &text_rows, cache_folder, 0);
    bool chosen[30] = {false};
    for (int i = 0; i < 30; i += 3) {
        chosen[i] = true;
    }
    struct records other = records_share(&records);
    records_choose(&other, chosen, true);
    records_choose(&records, chosen, false);
    assert_int_equal(other.n, 10);
    assert_int_equal(records.n, 20);
    assert_int_equal(records_example(&other, 2).source_row, 6);
    assert_int_equal(records_example(&records, 2).source_row, 4);
    /* A choice among the chosen. */
    struct records third = records_share(&other);
    records_choose(&third, chosen, true);
    assert_int_equal(third.n, 4);
    assert_int_equal(records_example(&third, 1).source_row, 9);
    assert_int_equal(third.sources[0].n, 4);
    assert_int_equal(other.counts.n_tokens + records.counts.n_tokens,
                     other.sources[0].counts.n_tokens +
                         records.sources[0].counts.n_tokens);
    records_deinit(&records);
    records_deinit(&third);
    assert_int_equal(records_example(&other, 9).source_row, 27);
    records_deinit(&other);
}

#ifndef LATHE_SLOW_CHECKS
/* The highest resident size from now on; false where the system cannot say. */
static bool forget_peak(void)
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY);
    const bool is_done = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0) {
        close(fd);
    }
    return is_done;
}

/* 16 MB of rows whose examples take 32 MB: neither is held in memory, not while they are
 * read, nor while an epoch goes over all of them. Windows, plans and the pages of the
 * last examples take 26 MB, however long the file is. */
static void flat_memory(void **state)
{
    (void)state;
    enum { N_ROWS = 100000, LIMIT_BYTES = 32 << 20 };
    struct str text = {0};
    for (int i = 0; i < N_ROWS; i++) {
        str_printf(&text, "{\"input_ids\": [%d", i);
        for (int k = 0; k < 36; k++) {
            str_printf(&text, ",%d", 100 + (i + k) % 899);
        }
        str_add(&text, "]}\n");
    }
    write_rows(&text);
    str_deinit(&text);
    const struct records_options options = {
        .format = RECORDS_TOKENS, .row_tokens = 64, .n_vocabulary = N_ROWS};
    const size_t before = mem_resident_bytes();
    if (!forget_peak()) {
        skip();
    }
    for (int round = 0; round < 2; round++) {
        struct records records = {0};
        open_or_fail(&records, &options, cache_folder, 2);
        assert_int_equal(records.n, N_ROWS);
        const struct loader_options loading = {
            .pack = {.row_tokens = 64, .is_packed = false, .is_shuffled = true},
            .step_rows = 64,
            .rows = 64,
            .n_ranks = 1,
            .target_capacity = 64 * 64,
            .n_epochs = 1,
        };
        struct error err;
        int64_t n = 0;
        struct loader *loader = loader_create(&records, &loading, &err);
        for (const struct batch *batch; (batch = loader_next(loader)) != NULL;) {
            n += batch->n_examples;
        }
        assert_int_equal(n, N_ROWS * 3 / 2); /* the weight of the file */
        loader_destroy(loader);
        records_deinit(&records);
        assert_true(mem_peak_resident_bytes() < before + LIMIT_BYTES);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(once_and_the_same, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(by_content, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(small_files_stay_in_memory, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(folders_that_cannot_be, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(damage_is_repaired, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(broken_rows, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(chosen_examples, make_folder, remove_folder),
#ifndef LATHE_SLOW_CHECKS
        cmocka_unit_test_setup_teardown(flat_memory, make_folder, remove_folder),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
