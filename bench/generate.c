/*
 * bench generate - speed of generation: the shape of Gemma 3 270M with made-up weights in
 * bf16, a prompt of 512 tokens, then one token at a time.
 *
 * A token reads every weight once, so the figure to compare with is the bandwidth at which
 * all threads together read memory, measured here just before.
 *
 * usage: generate [TOKENS [THREADS [ROWS [profile]]]]
 *        (32, one per processor, 1; where the time went)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/native.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "model/config.h"
#include "model/params.h"
#include "train/decoding.h"

enum { PROMPT = 512, MAX_ROWS = 16, N_BLOCKS = 64, ROUNDS = 10 };

static const char *const MODEL = "gemma3-270m";
static const char *const TARGET = "target: 70 % of the bandwidth";

struct bench {
    struct model_config config;
    struct params *params;
    uint16_t **weights; /* [params->n] bf16, or NULL for vectors */
    int64_t n_bytes;    /* of what one token reads */
    struct engine *engine;
    struct decoding *decoding;
};

/* Numbers of about the size that trained weights have. */
static void fill(uint16_t *weights, int64_t n, uint64_t seed)
{
    uint64_t x = seed * 2654435761u + 88172645463325252u;
    for (int64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        weights[i] = (uint16_t)(0x3C00 + (x & 0x80FF)); /* 2^-7 to 2^-5, both signs */
    }
}

static const void *view(void *context, int param, enum dtype *dtype)
{
    const struct bench *bench = context;
    *dtype = DTYPE_BF16;
    return bench->weights[param];
}

/* Vectors only: norms. */
static bool read_zeros(void *context, int param, int64_t first_row, int64_t n_rows,
                       float *target, struct error *err)
{
    (void)first_row;
    (void)err;
    const struct bench *bench = context;
    memset(target, 0,
           (size_t)(n_rows * bench->params->info[param].dim[1]) * sizeof(float));
    return true;
}

static bool open_bench(struct bench *bench, int n_threads, int32_t rows, int32_t n,
                       bool profiles, struct error *err)
{
    if (!model_config_named(MODEL, &bench->config)) {
        return error_set(err, ERROR_FAILED, "no model %s", MODEL);
    }
    bench->params = params_create(&bench->config);
    bench->weights = mem_alloc_array((size_t)bench->params->n, sizeof(*bench->weights));
    for (int i = 0; i < bench->params->n; i++) {
        const struct param_info *info = &bench->params->info[i];
        if (info->rank == 2) {
            bench->weights[i] =
                mem_alloc_array((size_t)info->n_elements, sizeof(uint16_t));
            fill(bench->weights[i], info->n_elements, (uint64_t)i + 1);
            bench->n_bytes += info->n_elements * 2;
        }
    }
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {
        .n_threads = n_threads, .isa = BACKEND_ISA_BEST, .profiles = profiles};
    bench->engine = backend_create_cpu(&mesh, 0, 1, &options, err);
    if (bench->engine == NULL) {
        return false;
    }
    const struct decoding_options decoding = {.config = &bench->config,
                                              .params = bench->params,
                                              .rows = rows,
                                              .context = 2 * PROMPT + n};
    const struct decoding_source source = {
        .view = view, .read = read_zeros, .context = bench};
    bench->decoding = decoding_create(bench->engine, &decoding, &source, err);
    return bench->decoding != NULL;
}

static void close_bench(struct bench *bench)
{
    decoding_destroy(bench->decoding);
    backend_destroy(bench->engine);
    for (int i = 0; i < bench->params->n; i++) {
        mem_free(bench->weights[i]);
    }
    mem_free(bench->weights);
    params_destroy(bench->params);
}

/* ---- bandwidth ---- */

enum { ROW = 1024 }; /* floats */

struct reading {
    const struct native *native;
    const float *memory;
    int64_t n_rows; /* of a block */
    float x[ROW];
    float *found; /* [N_BLOCKS * n_rows] */
};

static void read_block(void *context, int64_t task, int thread)
{
    (void)thread;
    struct reading *reading = context;
    reading->native->dots_f32(
        reading->x, ROW, 1, reading->memory + task * reading->n_rows * ROW, ROW,
        reading->n_rows, ROW, reading->found + task * reading->n_rows, 1);
}

/* Bytes per second of the best of some rounds over 512 MiB: products of f32 rows, which
 * do the least per byte. */
static double measure_bandwidth(int n_threads, struct error *err)
{
    struct pool *pool = pool_create(n_threads, err);
    if (pool == NULL) {
        return 0.0;
    }
    const size_t bytes = (size_t)512 << 20;
    struct reading reading = {.native = native_find(BACKEND_ISA_BEST),
                              .n_rows =
                                  (int64_t)(bytes / sizeof(float) / ROW / N_BLOCKS)};
    reading.found = mem_alloc_array(N_BLOCKS * (size_t)reading.n_rows, sizeof(float));
    float *memory = mem_alloc(bytes);
    memset(memory, 0x3C, bytes);
    reading.memory = memory;
    double best = 0.0;
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t from = clock_now_ns();
        pool_run(pool, N_BLOCKS, read_block, &reading);
        const double rate = (double)bytes / (clock_since_ms(from) / 1e3);
        best = rate > best ? rate : best;
    }
    mem_free(memory);
    mem_free(reading.found);
    pool_destroy(pool);
    return best;
}

/* ---- speeds ---- */

/* Feeds every row n tokens; *seconds it took. */
static bool feed(struct bench *bench, int32_t rows, int32_t n, double *seconds,
                 struct error *err)
{
    int32_t ids[PROMPT];
    const int32_t *row_ids[MAX_ROWS];
    int32_t counts[MAX_ROWS];
    for (int32_t i = 0; i < n; i++) {
        ids[i] = 1000 + 37 * i;
    }
    for (int32_t b = 0; b < rows; b++) {
        row_ids[b] = ids;
        counts[b] = n;
    }
    const int64_t from = clock_now_ns();
    const bool done = decoding_feed(bench->decoding, row_ids, counts, err);
    *seconds = clock_since_ms(from) / 1e3;
    return done;
}

static bool measure(struct bench *bench, int n_threads, int32_t rows, int32_t n,
                    bool profiles, struct error *err)
{
    double prompt = 0.0;
    if (!feed(bench, rows, PROMPT, &prompt, err)) {
        return false;
    }
    backend_profile_reset(bench->engine);
    const double bandwidth = measure_bandwidth(n_threads, err);
    double best = 0.0, all = 0.0;
    for (int32_t i = 0; i < n; i++) {
        double seconds = 0.0;
        if (!feed(bench, rows, 1, &seconds, err)) {
            return false;
        }
        best = i == 0 || seconds < best ? seconds : best;
        all += seconds;
    }
    const double rate = (double)bench->n_bytes / best;
    printf("engine: %s\n", backend_describe(bench->engine));
    printf("prompt_tokens_per_s: %.1f\n", rows * PROMPT / prompt);
    printf("tokens_per_s: %.1f (mean %.1f)\n", rows / best, rows * n / all);
    printf("weight_gb_per_s: %.2f\n", rate / 1e9);
    printf("bandwidth_gb_per_s: %.2f\n", bandwidth / 1e9);
    printf("share_of_bandwidth: %.3f\n", bandwidth > 0.0 ? rate / bandwidth : 0.0);
    printf("%s\n", TARGET);
    if (profiles) {
        struct str table = {0};
        backend_profile_print(bench->engine, &table);
        fputs(str_text(&table), stdout);
        str_deinit(&table);
    }
    return true;
}

int main(int argc, char **argv)
{
    const int32_t n = argc > 1 ? (int32_t)strtol(argv[1], NULL, 10) : 32;
    const int n_threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    const int32_t rows = argc > 3 ? (int32_t)strtol(argv[3], NULL, 10) : 1;
    const bool profiles = argc > 4 && strcmp(argv[4], "profile") == 0;
    if (n < 1 || rows < 1 || rows > MAX_ROWS) {
        fprintf(stderr, "usage: generate [TOKENS [THREADS [ROWS [profile]]]]\n");
        return 2;
    }
    struct bench bench = {0};
    struct error err;
    const bool done = open_bench(&bench, n_threads, rows, n, profiles, &err) &&
                      measure(&bench, n_threads, rows, n, profiles, &err);
    if (!done) {
        fprintf(stderr, "generate: %s\n", err.message);
    }
    close_bench(&bench);
    return done ? 0 : 1;
}
