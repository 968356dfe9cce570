/*
 * metrics.jsonl back: what metrics_print writes, and files as runs leave them behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "train/metrics.h"
#include "train/metrics_read.h"

static void read_text(struct metrics_curves *curves, const char *text)
{
    metrics_read_text(curves, text, strlen(text));
}

static void what_is_written_comes_back(void **state)
{
    (void)state;
    struct str text = {0};
    struct metrics metrics = {.step = 7,
                              .epoch = 0.5,
                              .loss = 2.25,
                              .eval_loss = (double)NAN,
                              .grad_norm = 1.5,
                              .lr = 1e-4,
                              .n_real_tokens = 500,
                              .step_ms = 250.0,
                              .mfu = (double)NAN};
    metrics_print(&metrics, &text);
    metrics.step = 8;
    metrics.loss = (double)NAN;
    metrics.eval_loss = 2.125;
    metrics_print(&metrics, &text);
    struct metrics_curves curves;
    metrics_read_text(&curves, text.text, text.length);
    assert_int_equal(curves.n, 2);
    assert_int_equal(curves.n_broken, 0);
    assert_true(curves.values[METRICS_STEP][0] == 7.0);
    assert_true(curves.values[METRICS_EPOCH][0] == 0.5);
    assert_true(curves.values[METRICS_LOSS][0] == 2.25);
    assert_true(isnan(curves.values[METRICS_EVAL_LOSS][0]));
    assert_true(curves.values[METRICS_LR][0] == 1e-4);
    assert_true(curves.values[METRICS_GRAD_NORM][0] == 1.5);
    assert_true(curves.values[METRICS_TOKENS_PER_S][0] == 2000.0);
    assert_true(isnan(curves.values[METRICS_LOSS][1]));
    assert_true(curves.values[METRICS_EVAL_LOSS][1] == 2.125);
    metrics_read_deinit(&curves);
    str_deinit(&text);
}

static void a_torn_last_line_is_left_out(void **state)
{
    (void)state;
    struct metrics_curves curves;
    read_text(&curves, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"lo");
    assert_int_equal(curves.n, 1);
    assert_int_equal(curves.n_broken, 0);
    metrics_read_deinit(&curves);
    /* One that is whole but for its line end counts. */
    read_text(&curves, "{\"step\": 1, \"loss\": 3}\r\n\n{\"step\": 2, \"loss\": 4}");
    assert_int_equal(curves.n, 2);
    assert_true(curves.values[METRICS_LOSS][1] == 4.0);
    assert_int_equal(curves.n_broken, 0);
    metrics_read_deinit(&curves);
}

static void broken_lines_are_counted(void **state)
{
    (void)state;
    struct metrics_curves curves;
    read_text(&curves,
              "not json\n[1]\n{\"step\": 4, \"loss\": \"x\", \"lr\": null}\n{}\n");
    assert_int_equal(curves.n, 2);
    assert_int_equal(curves.n_broken, 2);
    assert_true(isnan(curves.values[METRICS_LOSS][0]));
    assert_true(isnan(curves.values[METRICS_LR][0]));
    assert_true(curves.values[METRICS_STEP][1] == 5.0); /* the one after 4 */
    metrics_read_deinit(&curves);
    read_text(&curves, "");
    assert_int_equal(curves.n, 0);
    metrics_read_deinit(&curves);
    struct error err;
    assert_false(metrics_read_file(&curves, "no such file", &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void many_lines(void **state)
{
    (void)state;
    struct str text = {0};
    for (int i = 1; i <= 5000; i++) {
        str_printf(&text, "{\"step\": %d, \"loss\": %d.5}\n", i, i);
    }
    struct metrics_curves curves;
    metrics_read_text(&curves, text.text, text.length);
    assert_int_equal(curves.n, 5000);
    for (int i = 1; i <= 5000; i++) {
        assert_true(curves.values[METRICS_LOSS][i - 1] == i + 0.5);
    }
    metrics_read_deinit(&curves);
    str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(a_torn_last_line_is_left_out),
        cmocka_unit_test(broken_lines_are_counted),
        cmocka_unit_test(many_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
