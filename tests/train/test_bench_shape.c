/*
 * Shapes by name and by folder, and what a token reads of them.
 */
#include "train/bench_shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void shapes_by_name_and_by_folder(void **state)
{
    (void)state;
    struct model_source source;
    struct error err;
    assert_true(bench_shape_open(&source, "gemma3-270m", &err));
    assert_int_equal(source.params->n_elements, 268098176);
    assert_null(source.weights);
    /* All but the norms: 18 layers of 4 x 640 + 2 x 256 numbers, and the last one. */
    const double matrices = 268098176.0 - 18 * (4 * 640 + 2 * 256) - 640;
    assert_true(bench_shape_token_bytes(&source, 2) == 2.0 * matrices);
    model_source_close(&source);
    assert_true(bench_shape_open(&source, "tests/golden/gemma3-tiny", &err));
    assert_null(source.weights);
    model_source_close(&source);
}

/* A per-layer table is looked up and not read as a whole. */
static void tables_that_are_looked_up_do_not_count(void **state)
{
    (void)state;
    struct model_source source;
    struct error err;
    assert_true(bench_shape_open(&source, "gemma4-e2b", &err));
    const int table = params_index(source.params, PARAM_PLE_TABLE, -1);
    assert_true(table >= 0);
    assert_true(
        bench_shape_token_bytes(&source, 1) <=
        (double)(source.params->n_elements - source.params->info[table].n_elements));
    model_source_close(&source);
}

static void other_names_are_refused(void **state)
{
    (void)state;
    struct model_source source;
    struct error err;
    assert_false(bench_shape_open(&source, "gemma3-2b", &err));
    assert_int_equal(error_exit_code(err.kind), 2);
    assert_non_null(strstr(err.message, "--model-shape gemma3-2b"));
    assert_non_null(strstr(err.message, "gemma3-270m, gemma3-1b"));
    model_source_close(&source);
    assert_false(bench_shape_open(&source, "tests/golden", &err));
    assert_int_equal(error_exit_code(err.kind), 3);
    model_source_close(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_by_name_and_by_folder),
        cmocka_unit_test(tables_that_are_looked_up_do_not_count),
        cmocka_unit_test(other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
