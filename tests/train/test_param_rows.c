/*
 * Parameters into buffers of both dtypes, and rows of a table by number.
 */
#include "train/param_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "model/params.h"
#include "support/golden.h"

/* Element i of row r is r + i / 128, which bf16 has for small numbers. */
static bool read_rows(void *context, int param, int64_t first_row, int64_t n_rows,
                      float *target, struct error *err)
{
    (void)err;
    const struct params *params = context;
    const int64_t width = params->info[param].dim[1];
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t i = 0; i < width; i++) {
            target[r * width + i] =
                (float)((first_row + r) % 2) + (float)(i % 64) / 128.0F;
        }
    }
    return true;
}

static bool fail_rows(void *context, int param, int64_t first_row, int64_t n_rows,
                      float *target, struct error *err)
{
    (void)context;
    (void)param;
    (void)first_row;
    (void)n_rows;
    (void)target;
    return error_set(err, ERROR_DATA, "no rows");
}

static void buffers_are_filled(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma3-tiny");
    struct engine *engine = golden_engine(1);
    struct params *params = golden_source(golden)->params;
    const int param = params_index(params, PARAM_GATE, 1);
    const struct param_info *info = &params->info[param];
    const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};
    struct error err;
    for (int d = 0; d < 2; d++) {
        const struct type type = type_make(dtypes[d], info->rank, info->dim);
        struct buffer *buffer = backend_buffer_create(engine, &type, "b", &err);
        assert_true(param_rows_load(buffer, params, param, read_rows, params, &err));
        const unsigned char *host = backend_buffer_host(buffer, 0);
        for (int64_t i = 0; i < info->n_elements; i++) {
            float x;
            dtype_to_f32(dtypes[d], host + (size_t)i * dtype_bytes(dtypes[d]), &x, 1);
            assert_true(x == (float)(i / info->dim[1] % 2) +
                                 (float)(i % info->dim[1] % 64) / 128.0F);
        }
        assert_false(param_rows_load(buffer, params, param, fail_rows, params, &err));
        assert_string_equal(err.message, "no rows");
        backend_buffer_destroy(buffer);
    }
    backend_destroy(engine);
    golden_close(golden);
}

static void rows_by_number(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    struct params *params = golden_source(golden)->params;
    const int param = params_index(params, PARAM_PLE_TABLE, -1);
    const int64_t width = params->info[param].dim[1];
    const int32_t V = (int32_t)params->info[param].dim[0];
    const int32_t ids[] = {3, V - 1, V, -1, 0};
    float target[5 * 1024];
    assert_true(width <= 1024);
    struct error err;
    assert_true(
        param_rows_look_up(params, param, ids, 5, read_rows, params, target, &err));
    for (int64_t i = 0; i < 5; i++) {
        const bool is_inside = ids[i] >= 0 && ids[i] < V;
        assert_true(target[i * width + 1] ==
                    (is_inside ? (float)(ids[i] % 2) + 1.0F / 128.0F : 0.0F));
    }
    assert_false(
        param_rows_look_up(params, param, ids, 5, fail_rows, params, target, &err));
    golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_filled),
        cmocka_unit_test(rows_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
