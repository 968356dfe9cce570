/*
 * The benchmark of generation: figures that fit together, for both kinds of weights.
 */
#include "train/bench_generate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/error.h"

static struct bench_generate_result run(enum dtype stored, int32_t rows)
{
    const struct bench_generate_wish wish = {.shape = "tests/golden/gemma3-tiny",
                                             .stored = stored,
                                             .rows = rows,
                                             .prompt_tokens = 12,
                                             .n_tokens = 4,
                                             .n_threads = 1};
    struct bench_generate_result result;
    struct error err;
    if (!bench_generate_run(&wish, &result, &err)) {
        fail_msg("%s", err.message);
    }
    return result;
}

static void figures_fit_together(void **state)
{
    (void)state;
    const struct bench_generate_result narrow = run(DTYPE_BF16, 1);
    const struct bench_generate_result wide = run(DTYPE_F32, 3);
    assert_true(narrow.tokens_per_s >= narrow.mean_tokens_per_s);
    assert_true(narrow.prompt_tokens_per_s > 0.0 && narrow.first_token_s > 0.0);
    assert_true(fabs(narrow.share_of_bandwidth * narrow.bandwidth_gb_per_s -
                     narrow.weight_gb_per_s) <= 1e-9 * narrow.weight_gb_per_s);
    /* Bytes of a pass over the weights: twice as many in f32. */
    const double narrow_bytes = narrow.weight_gb_per_s / narrow.tokens_per_s;
    const double wide_bytes = wide.weight_gb_per_s / (wide.tokens_per_s / 3.0);
    assert_true(fabs(wide_bytes / narrow_bytes - 2.0) < 1e-6);
    assert_true(narrow.n_ops > 3 && narrow.peak_bytes > 1000000);
}

static void other_shapes_are_refused(void **state)
{
    (void)state;
    const struct bench_generate_wish wish = {
        .shape = "none", .rows = 1, .prompt_tokens = 1, .n_tokens = 1};
    struct bench_generate_result result;
    struct error err;
    assert_false(bench_generate_run(&wish, &result, &err));
    assert_int_equal(error_exit_code(err.kind), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_fit_together),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
