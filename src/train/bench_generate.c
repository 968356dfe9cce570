/*
 * bench_generate - see the header.
 */
#include "train/bench_generate.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/random.h"
#include "model/random_init.h"
#include "train/bench_shape.h"
#include "train/decoding.h"
#include "train/machine.h"

enum { SEED = 1, FILL_ELEMENTS = 1 << 16 };

/* One benchmark; close_bench takes it in any state. */
struct bench {
    const struct bench_generate_wish *wish;
    struct model_source source;
    void **weights; /* [params->n] matrices as they are stored; NULL: others */
    struct engine *engine;
    struct decoding *decoding;
    int32_t *ids;            /* [prompt_tokens] the same prompt in each row */
    const int32_t **row_ids; /* [rows] */
    int32_t *counts;         /* [rows] */
};

/* ---- weights ---- */

/* A matrix of random numbers, made in pieces of whole rows. */
static void *make_matrix(const struct bench *bench, int param, struct error *err)
{
    const struct model_source *source = &bench->source;
    const struct param_info *info = &source->params->info[param];
    const size_t bytes = dtype_bytes(bench->wish->stored);
    unsigned char *matrix =
        mem_try_alloc((size_t)info->n_elements * bytes, info->name, err);
    if (matrix == NULL) {
        return NULL;
    }
    const int64_t most = base_max(1, FILL_ELEMENTS / info->dim[1]);
    float *rows = mem_alloc_array((size_t)(most * info->dim[1]), sizeof(*rows));
    for (int64_t row = 0; row < info->dim[0]; row += most) {
        const int64_t n = base_min(most, info->dim[0] - row);
        random_init_rows(&source->config, source->params, SEED, param, row, n, rows);
        dtype_from_f32(bench->wish->stored, rows,
                       matrix + (size_t)(row * info->dim[1]) * bytes,
                       (size_t)(n * info->dim[1]));
    }
    mem_free(rows);
    return matrix;
}

/* As decoding_source.view. */
static const void *view(void *context, int param, enum dtype *dtype)
{
    const struct bench *bench = context;
    *dtype = bench->wish->stored;
    return bench->weights[param];
}

/* A weights_read_fn: vectors, and rows of a per-layer table. */
static bool read_random(void *context, int param, int64_t first_row, int64_t n_rows,
                        float *target, struct error *err)
{
    (void)err;
    const struct bench *bench = context;
    random_init_rows(&bench->source.config, bench->source.params, SEED, param,
                     first_row, n_rows, target);
    return true;
}

static bool make_weights(struct bench *bench, struct error *err)
{
    const struct params *params = bench->source.params;
    bench->weights = mem_alloc_array((size_t)params->n, sizeof(*bench->weights));
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        if (info->rank != 2 || info->role == PARAM_PLE_TABLE) {
            continue;
        }
        bench->weights[i] = make_matrix(bench, i, err);
        if (bench->weights[i] == NULL || !interrupt_check(err)) {
            return false;
        }
    }
    return true;
}

/* ---- texts ---- */

static void make_texts(struct bench *bench)
{
    const struct bench_generate_wish *wish = bench->wish;
    const uint64_t V = (uint64_t)bench->source.config.V;
    bench->ids = mem_alloc_array((size_t)wish->prompt_tokens, sizeof(*bench->ids));
    for (int32_t i = 0; i < wish->prompt_tokens; i++) {
        bench->ids[i] = (int32_t)(random_bits(SEED, RANDOM_TEST, 0, (uint64_t)i) % V);
    }
    bench->row_ids = mem_alloc_array((size_t)wish->rows, sizeof(*bench->row_ids));
    bench->counts = mem_alloc_array((size_t)wish->rows, sizeof(*bench->counts));
}

static bool open_bench(struct bench *bench, struct error *err)
{
    const struct bench_generate_wish *wish = bench->wish;
    if (!bench_shape_open(&bench->source, wish->shape, err)) {
        return false;
    }
    make_texts(bench);
    const struct mesh mesh = mesh_single();
    const struct backend_options engine = {.n_threads = wish->n_threads,
                                           .isa = BACKEND_ISA_BEST,
                                           .profiles = true,
                                           .traces = wish->trace_path != NULL,
                                           .abandon = interrupt_flag()};
    bench->engine = backend_create_cpu(&mesh, 0, 1, &engine, err);
    if (bench->engine == NULL || !make_weights(bench, err)) {
        return false;
    }
    const struct decoding_options decoding = {.config = &bench->source.config,
                                              .params = bench->source.params,
                                              .rows = wish->rows,
                                              .context =
                                                  wish->prompt_tokens + wish->n_tokens};
    const struct decoding_source source = {
        .view = view, .read = read_random, .context = bench};
    bench->decoding = decoding_create(bench->engine, &decoding, &source, err);
    return bench->decoding != NULL;
}

static void close_bench(struct bench *bench)
{
    decoding_destroy(bench->decoding);
    backend_destroy(bench->engine);
    for (int i = 0; bench->weights != NULL && i < bench->source.params->n; i++) {
        mem_free(bench->weights[i]);
    }
    mem_free(bench->weights);
    mem_free(bench->ids);
    mem_free((void *)(uintptr_t)bench->row_ids);
    mem_free(bench->counts);
    model_source_close(&bench->source);
}

/* ---- speeds ---- */

/* Feeds every row n tokens; *seconds it took. */
static bool feed(struct bench *bench, int32_t n, double *seconds, struct error *err)
{
    for (int32_t b = 0; b < bench->wish->rows; b++) {
        bench->row_ids[b] = bench->ids;
        bench->counts[b] = n;
    }
    const int64_t from = clock_now_ns();
    const bool done =
        interrupt_check(err) &&
        decoding_feed(bench->decoding, bench->row_ids, bench->counts, err);
    *seconds = clock_since_ms(from) / 1000.0;
    return done;
}

static bool feed_tokens(struct bench *bench, struct bench_generate_result *result,
                        struct error *err)
{
    const struct bench_generate_wish *wish = bench->wish;
    double best = 0.0;
    double all = 0.0;
    for (int32_t i = 0; i < wish->n_tokens; i++) {
        double seconds = 0.0;
        if (!feed(bench, 1, &seconds, err)) {
            return false;
        }
        best = i == 0 || seconds < best ? seconds : best;
        all += seconds;
    }
    result->tokens_per_s = wish->rows / best;
    result->mean_tokens_per_s = (double)wish->rows * wish->n_tokens / all;
    result->weight_gb_per_s =
        bench_shape_token_bytes(&bench->source, dtype_bytes(wish->stored)) / best / 1e9;
    return true;
}

static bool run(struct bench *bench, struct bench_generate_result *result,
                struct error *err)
{
    const struct bench_generate_wish *wish = bench->wish;
    double prompt_s = 0.0;
    if (!open_bench(bench, err) || !feed(bench, wish->prompt_tokens, &prompt_s, err)) {
        return false;
    }
    result->prompt_tokens_per_s = (double)wish->rows * wish->prompt_tokens / prompt_s;
    result->first_token_s = clock_since_process_start_ms() / 1000.0;
    if (wish->trace_path == NULL) {
        backend_profile_reset(bench->engine);
    }
    if (!feed_tokens(bench, result, err)) {
        return false;
    }
    result->peak_bytes = mem_peak_resident_bytes();
    result->n_ops =
        backend_profile_ops(bench->engine, result->ops, BENCH_GENERATE_MAX_OPS);
    result->bandwidth_gb_per_s = machine_measure_reading(wish->n_threads, err);
    if (result->bandwidth_gb_per_s <= 0.0) {
        return false;
    }
    result->share_of_bandwidth = result->weight_gb_per_s / result->bandwidth_gb_per_s;
    snprintf(result->engine, sizeof(result->engine), "%s",
             backend_describe(bench->engine));
    return wish->trace_path == NULL ||
           backend_trace_write(bench->engine, wish->trace_path, err);
}

bool bench_generate_run(const struct bench_generate_wish *wish,
                        struct bench_generate_result *result, struct error *err)
{
    struct bench bench = {.wish = wish};
    *result = (struct bench_generate_result){0};
    const bool done = run(&bench, result, err);
    close_bench(&bench);
    return done;
}
