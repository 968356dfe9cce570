/*
 * Initial parameters: identity norms, the right spread, the same for any way of asking.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/params.h"
#include "model/random_init.h"

static void test_values(void **state)
{
    (void)state;
    struct model_config config;
    struct error err;
    assert_true(model_config_read("tests/golden/gemma4-e2b-tiny", &config, &err));
    struct params *params = params_create(&config);
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        const size_t n = (size_t)info->n_elements;
        float *values = mem_alloc_array(n, sizeof(*values));
        random_init_rows(&config, params, 5, i, 0, info->dim[0], values);
        double squares = 0;
        for (size_t j = 0; j < n; j++) {
            squares += (double)values[j] * (double)values[j];
            if (info->rank == 1) {
                assert_true(values[j] == 1.0f); /* norms and layer scalars */
            }
        }
        if (info->rank == 2) {
            /* 1 / sqrt(2 n) is the deviation of the estimate */
            const double spread = sqrt(squares / (double)n) / 0.02;
            assert_true(fabs(spread - 1.0) < 6.0 / sqrt(2.0 * (double)n));
            float row[1024];
            assert_true(info->dim[1] <= 1024);
            random_init_rows(&config, params, 5, i, 3, 1, row);
            assert_memory_equal(row, values + 3 * info->dim[1],
                                (size_t)info->dim[1] * sizeof(float));
            random_init_rows(&config, params, 6, i, 3, 1, row);
            assert_memory_not_equal(row, values + 3 * info->dim[1],
                                    (size_t)info->dim[1] * sizeof(float));
        }
        mem_free(values);
    }
    params_destroy(params);
}

static void test_gemma3_norms_start_at_zero(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    struct params *params = params_create(&config);
    float values[640];
    memset(values, 0xFF, sizeof(values));
    random_init_rows(&config, params, 1, params_index(params, PARAM_FINAL_NORM, -1), 0,
                     640, values);
    for (int i = 0; i < 640; i++) {
        assert_true(values[i] == 0.0f);
    }
    params_destroy(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_gemma3_norms_start_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
