/*
 * The benchmark's step: the same step however it is cut into passes (C1, C2), figures that
 * fit together, and the work that is counted against numbers from the formulas.
 */
#include "train/bench_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "train/settings.h"

/* Settings of a small benchmark; freed by settings_deinit. */
static void make_settings(struct settings *settings)
{
    settings_init(settings);
    settings->init = INIT_RANDOM;
    settings->data.row_tokens = 24;
    settings->train.batch_rows = 5;
    settings->threads = 2;
}

static struct bench_step_result run(const struct settings *settings,
                                    const char *trace_path)
{
    const struct bench_step_wish wish = {.shape = "tests/golden/gemma3-tiny",
                                         .settings = settings,
                                         .n_steps = 1,
                                         .trace_path = trace_path};
    struct bench_step_result result;
    struct error err;
    if (!bench_step_run(&wish, &result, &err)) {
        fail_msg("%s", err.message);
    }
    return result;
}

/* C1, C2: the last of two steps has the loss of the unsplit one. */
static void passes_do_not_change_the_step(void **state)
{
    (void)state;
    struct settings settings;
    make_settings(&settings);
    const struct bench_step_result whole = run(&settings, NULL);
    assert_int_equal(whole.micro_rows, 5);
    assert_false(whole.recomputes);
    /* As large as two rows a pass, or one; the planner finds what fits. */
    settings.train.micro_rows = 2;
    const struct bench_step_result two = run(&settings, NULL);
    settings.train.micro_rows = 0;
    settings.memory_limit = (int64_t)two.planned_bytes;
    const struct bench_step_result split = run(&settings, NULL);
    assert_int_equal(split.micro_rows, 2);
    assert_true(split.planned_bytes <= two.planned_bytes);
    assert_true(fabs(split.loss - whole.loss) <= 1e-5 * whole.loss);
    assert_true(split.loss == two.loss);
    assert_true(split.planned_bytes < whole.planned_bytes);
    settings_deinit(&settings);
}

static void a_limit_that_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    struct settings settings;
    make_settings(&settings);
    settings.memory_limit = 100000;
    const struct bench_step_wish wish = {
        .shape = "tests/golden/gemma3-tiny", .settings = &settings, .n_steps = 1};
    struct bench_step_result result;
    struct error err;
    assert_false(bench_step_run(&wish, &result, &err));
    assert_int_equal(error_exit_code(err.kind), 4);
    settings.memory_limit = 0;
    settings.train.batch_rows = 1 << 16;
    settings.data.row_tokens = 1 << 20;
    assert_false(bench_step_run(&wish, &result, &err));
    assert_int_equal(error_exit_code(err.kind), 2);
    assert_non_null(strstr(err.message, "more than a step can hold"));
    settings_deinit(&settings);
}

static void figures_fit_together(void **state)
{
    (void)state;
    struct settings settings;
    make_settings(&settings);
    const struct bench_step_result result = run(&settings, NULL);
    assert_true(result.step_s > 0.0 && result.first_step_s > result.step_s / 10.0);
    assert_true(fabs(result.tokens_per_s * result.step_s - 5.0 * 24.0) < 1e-6);
    assert_true(isnan(result.mfu)); /* the peak was not asked for */
    assert_true(result.peak_bytes > result.planned_bytes / 2);
    assert_true(result.loss > 1.0 && result.loss < 20.0);
    assert_non_null(strstr(result.engine, "2 threads"));
    assert_true(result.n_ops > 5);
    double ms = 0.0;
    for (int i = 0; i < result.n_ops; i++) {
        ms += result.ops[i].ms;
        assert_true(result.ops[i].n_runs > 0);
    }
    /* One step after the first; what is between its nodes is small. */
    assert_true(ms > 500.0 * result.step_s);
    settings_deinit(&settings);
}

/* With LoRA no gradient of a frozen weight is counted: near two thirds of the work. */
static void frozen_weights_take_less(void **state)
{
    (void)state;
    struct settings settings;
    make_settings(&settings);
    const struct bench_step_result full = run(&settings, NULL);
    settings.lora.rank = 1;
    const struct bench_step_result adapters = run(&settings, NULL);
    const double share =
        adapters.gflops * adapters.step_s / (full.gflops * full.step_s);
    assert_true(share > 0.55 && share < 0.85);
    assert_true(adapters.n_trained < full.n_trained / 10.0);
    assert_true(adapters.planned_bytes < full.planned_bytes);
    settings.precision = PRECISION_BF16;
    assert_true(run(&settings, NULL).planned_bytes < adapters.planned_bytes);
    settings_deinit(&settings);
}

static void a_trace_is_written(void **state)
{
    (void)state;
    char path[] = "/tmp/lathe-bench-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct settings settings;
    make_settings(&settings);
    run(&settings, path);
    size_t length;
    struct error err;
    char *text = file_read(path, 64 << 20, &length, &err);
    assert_non_null(text);
    assert_non_null(strstr(text, "\"traceEvents\""));
    assert_non_null(strstr(text, "\"cat\":\"matmul\""));
    assert_non_null(strstr(text, "\"cat\":\"adamw\""));
    mem_free(text);
    remove(path);
    settings_deinit(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_do_not_change_the_step),
        cmocka_unit_test(a_limit_that_cannot_be_kept_is_refused),
        cmocka_unit_test(figures_fit_together),
        cmocka_unit_test(frozen_weights_take_less),
        cmocka_unit_test(a_trace_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
