/*
 * Reading on many threads: the same blocks at any number of them (C20), broken rows in
 * order, limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/random.h"
#include "data/ingest.h"
#include "data/line_window.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

/* What the blocks of a file add up to. */
struct seen {
    uint64_t hash; /* of all blocks with their places, in order */
    int64_t n_blocks;
    int64_t n_entries;
    int64_t next_row, next_line; /* the next block may not begin before these */
    int64_t stops_at;            /* block that is refused, -1 = none */
    int64_t n_progress, last_done;
};

static bool take(void *context, const struct row_block *block, int64_t first_row,
                 int64_t first_line, struct error *err)
{
    struct seen *seen = context;
    if (seen->n_blocks == seen->stops_at) {
        return error_set(err, ERROR_RESOURCE, "no more");
    }
    assert_true(first_row >= seen->next_row && first_line >= seen->next_line);
    seen->next_row = first_row + block->counts.n_rows;
    seen->next_line = first_line + block->n_lines;
    seen->hash =
        (seen->hash * 31 + block->hash) * 31 + (uint64_t)(first_row + first_line);
    seen->n_entries += (int64_t)block->n_entries;
    seen->n_blocks++;
    return true;
}

static void progress(void *context, const char *path, int64_t done, int64_t total)
{
    struct seen *seen = context;
    assert_string_equal(path, "t.jsonl");
    assert_true(done > seen->last_done && done <= total);
    seen->last_done = done;
    seen->n_progress++;
}

static bool run(const struct str *text, const struct records_options *records,
                const struct tokenizer *tokenizer, int n_threads, struct seen *seen,
                struct ingest_result *result, struct error *err)
{
    struct pool *pool = n_threads == 0 ? NULL : pool_create(n_threads, err);
    struct line_window *lines =
        line_window_view(str_text(text), text->length, "t.jsonl");
    const struct ingest_options options = {.where = "t.jsonl",
                                           .records = records,
                                           .tokenizer = tokenizer,
                                           .pool = pool,
                                           .take = take,
                                           .context = seen,
                                           .progress = progress,
                                           .progress_context = seen};
    *result = (struct ingest_result){.faults = {0}};
    const bool is_done = ingest_run(lines, &options, result, err);
    line_window_close(lines);
    pool_destroy(pool);
    return is_done;
}

/* Token rows of all lengths up to some hundreds, blank lines, and a broken row every
 * `bad_every` (0: none). */
static void make_text(struct str *text, int n, int bad_every)
{
    for (int i = 0; i < n; i++) {
        const uint32_t bits = random_bits(5, RANDOM_TEST, 0, (uint64_t)i);
        if (bad_every > 0 && i % bad_every == bad_every - 1) {
            str_printf(text, "{\"input_ids\": %d}\n", i);
            continue;
        }
        str_printf(text, "{\"input_ids\": [%d, %d", i, i);
        for (uint32_t k = 0; k < bits % 199; k++) {
            str_printf(text, ",%u", (unsigned)(bits ^ k) & 1023);
        }
        str_add(text, i % 50 == 0 ? "]}\n\n" : "]}\n");
    }
}

static void same_at_any_number_of_threads(void **state)
{
    (void)state;
    static const int threads[] = {0, 1, 2, 3, 8};
    enum { N_ROWS = 3500, BAD_EVERY = 97, N_BAD = N_ROWS / BAD_EVERY };
    const struct records_options options = {
        .format = RECORDS_TOKENS, .row_tokens = 150, .max_bad_rows = N_BAD};
    struct str text = {0};
    struct seen first = {.stops_at = -1};
    make_text(&text, N_ROWS, BAD_EVERY);
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < ARRAY_LENGTH(threads); i++) {
        struct seen seen = {.stops_at = -1};
        struct ingest_result result;
        struct error err = {.message = ""};
        if (!run(&text, &options, NULL, threads[i], &seen, &result, &err)) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(result.counts.n_rows, N_ROWS);
        assert_int_equal(result.counts.n_bad, N_BAD);
        assert_int_equal(result.counts.n_examples, N_ROWS - N_BAD);
        assert_int_equal(result.counts.n_examples, seen.n_entries);
        assert_true(result.counts.n_truncated > 100);
        assert_true(seen.n_blocks >= 9);
        /* Told of on the way, not only at the end (C19). */
        assert_int_equal(seen.last_done, text.length);
        assert_true(seen.n_progress >= (threads[i] < 2 ? 2 : 1));
        if (i == 0) {
            first = seen;
        }
        assert_int_equal(seen.n_blocks, first.n_blocks);
        assert_true(seen.hash == first.hash);
        str_deinit(&result.faults);
    }
    log_set_level(LOG_NOTE);
    str_deinit(&text);
}

/* As many broken rows as allowed are left out; one more names itself, the first of the
 * file whatever thread met which. */
static void broken_rows(void **state)
{
    (void)state;
    struct records_options options = {.format = RECORDS_TOKENS};
    struct str text = {0};
    make_text(&text, 1500, 400); /* broken: rows 399, 799, 1199 */
    static const char *const why[] = {
        "t.jsonl:408: column 2: input_ids: expected an array of integers",
        "t.jsonl:816: column 2: input_ids: expected an array of integers; it is broken "
        "row 2 of "
        "the file, "
        "data.max_bad_rows is 1",
        "t.jsonl:1224: column 2: input_ids: expected an array of integers; it is "
        "broken row 3 of "
        "the file, "
        "data.max_bad_rows is 2"};
    log_set_level(LOG_ERROR);
    for (int most = 0; most <= 3; most++) {
        struct seen seen = {.stops_at = -1};
        struct ingest_result result;
        struct error err = {.message = ""};
        options.max_bad_rows = most;
        const bool is_done = run(&text, &options, NULL, 3, &seen, &result, &err);
        assert_int_equal(is_done, most == 3);
        assert_string_equal(err.message, most == 3 ? "" : why[most]);
        if (most == 3) {
            assert_string_equal(
                str_text(&result.faults),
                "408: column 2: input_ids: expected an array of integers\n"
                "816: column 2: input_ids: expected an array of integers\n"
                "1224: column 2: input_ids: expected an array of integers\n");
            ingest_report("t.jsonl", str_text(&result.faults), 300);
        }
        str_deinit(&result.faults);
    }
    log_set_level(LOG_NOTE);
    str_deinit(&text);
}

/* A fault that lies in the settings stops the run, however many rows may be broken. */
static void faults_of_settings(void **state)
{
    (void)state;
    struct tokenizer_build build = {0};
    tokenizer_build_begin(&build);
    struct tokenizer *tokenizer =
        tokenizer_build_finish(&build, "{\"eos_token\": null}");
    const struct records_options options = {.format = RECORDS_CHAT,
                                            .max_bad_rows = 100};
    struct str text = {0};
    str_add(&text, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
    struct seen seen = {.stops_at = -1};
    struct ingest_result result;
    struct error err = {.message = ""};
    assert_false(run(&text, &options, tokenizer, 0, &seen, &result, &err));
    assert_int_equal(err.kind, ERROR_USAGE);
    assert_non_null(strstr(err.message, "t.jsonl:1: "));
    str_deinit(&result.faults);
    str_deinit(&text);
    tokenizer_destroy(tokenizer);
}

/* max_rows counts rows, not blank lines, and cuts exactly, within a block or beyond. */
static void max_rows(void **state)
{
    (void)state;
    static const int64_t limits[] = {1, 49, 51, 700, 1500, 1501};
    struct str text = {0};
    make_text(&text, 1500, 0);
    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        const struct records_options options = {.format = RECORDS_TOKENS,
                                                .max_rows = limits[i]};
        struct seen seen = {.stops_at = -1};
        struct ingest_result result;
        struct error err = {.message = ""};
        assert_true(run(&text, &options, NULL, 2, &seen, &result, &err));
        assert_int_equal(result.counts.n_rows, limits[i] < 1500 ? limits[i] : 1500);
        assert_int_equal(seen.n_entries, result.counts.n_rows);
        str_deinit(&result.faults);
    }
    str_deinit(&text);
}

/* What takes the blocks may fail, at any of them. */
static void a_taker_that_fails(void **state)
{
    (void)state;
    const struct records_options options = {.format = RECORDS_TOKENS};
    struct str text = {0};
    make_text(&text, 2500, 0);
    for (int64_t stop = 0; stop < 6; stop++) {
        struct seen seen = {.stops_at = stop};
        struct ingest_result result;
        struct error err = {.message = ""};
        assert_false(run(&text, &options, NULL, 2, &seen, &result, &err));
        assert_string_equal(err.message, "no more");
        assert_int_equal(seen.n_blocks, stop);
        str_deinit(&result.faults);
    }
    str_deinit(&text);
}

static void no_lines(void **state)
{
    (void)state;
    const struct records_options options = {.format = RECORDS_TOKENS};
    const struct str text = {0};
    struct seen seen = {.stops_at = -1};
    struct ingest_result result;
    struct error err = {.message = ""};
    assert_true(run(&text, &options, NULL, 2, &seen, &result, &err));
    assert_int_equal(seen.n_blocks, 0);
    assert_int_equal(result.counts.n_rows, 0);
    str_deinit(&result.faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_at_any_number_of_threads),
        cmocka_unit_test(broken_rows),
        cmocka_unit_test(faults_of_settings),
        cmocka_unit_test(max_rows),
        cmocka_unit_test(a_taker_that_fails),
        cmocka_unit_test(no_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
