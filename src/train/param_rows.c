/*
 * param_rows - see the header.
 */
#include "train/param_rows.h"

#include <string.h>

#include "base/mem.h"
#include "model/params.h"

/* Rows that are converted at a time: about 256 Ki elements. */
static int64_t rows_at_a_time(const struct param_info *info)
{
    const int64_t elements = 1 << 18;
    return base_min(info->dim[0], base_max(1, elements / info->dim[1]));
}

/* f32 comes from the file right into its place; bf16 by way of a few rows in f32. */
static bool read_all(const struct param_info *info, int param, weights_read_fn read,
                     void *context, enum dtype dtype, void *target, struct error *err)
{
    const int64_t n_rows = info->dim[0];
    if (dtype == DTYPE_F32) {
        return read(context, param, 0, n_rows, target, err);
    }
    const int64_t step_rows = rows_at_a_time(info);
    const size_t row = (size_t)info->dim[1];
    float *rows =
        mem_try_alloc((size_t)step_rows * row * sizeof(float), info->name, err);
    bool done = rows != NULL;
    for (int64_t i = 0; done && i < n_rows; i += step_rows) {
        const int64_t n = base_min(step_rows, n_rows - i);
        done = read(context, param, i, n, rows, err);
        if (done) {
            unsigned char *at =
                (unsigned char *)target + (size_t)i * row * dtype_bytes(dtype);
            dtype_from_f32(dtype, rows, at, (size_t)n * row);
        }
    }
    mem_free(rows);
    return done;
}

/* Into the engine's memory where that is the host's, else by way of a copy. */
bool param_rows_load(struct buffer *buffer, const struct params *params, int param,
                     weights_read_fn read, void *context, struct error *err)
{
    const struct param_info *info = &params->info[param];
    const enum dtype dtype = backend_buffer_type(buffer)->dtype;
    void *host = backend_buffer_host(buffer, 0);
    if (host != NULL) {
        return read_all(info, param, read, context, dtype, host, err);
    }
    void *whole =
        mem_try_alloc((size_t)info->n_elements * dtype_bytes(dtype), info->name, err);
    const bool done = whole != NULL &&
                      read_all(info, param, read, context, dtype, whole, err) &&
                      backend_upload(buffer, 0, whole, err);
    mem_free(whole);
    return done;
}

bool param_rows_look_up(const struct params *params, int param, const int32_t *ids,
                        int64_t n, weights_read_fn read, void *context, float *target,
                        struct error *err)
{
    const int64_t row = params->info[param].dim[1];
    const int64_t n_rows = params->info[param].dim[0];
    for (int64_t i = 0; i < n; i++, target += row) {
        if (ids[i] < 0 || ids[i] >= n_rows) {
            memset(target, 0, (size_t)row * sizeof(float));
        } else if (!read(context, param, ids[i], 1, target, err)) {
            return false;
        }
    }
    return true;
}
