/*
 * engine - makes and frees what programs of the CPU engine share.
 *
 * The arenas grow when a program is compiled, never in a step. Growing moves them,
 * which is why programs keep offsets and resolve addresses when arena_version has
 * changed: nothing in an arena outlives the run of a program.
 */
#include "backend/cpu/engine.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/executor.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/native.h"
#include "backend/cpu/profile.h"
#include "backend/cpu/program.h"
#include "backend/cpu/trace.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"

enum {
    WARM_SIDE = 256,     /* product that makes a library prepare a thread */
    MEASURE_SIDE = 2048, /* product whose speed counts as the machine's peak */
    MEASURE_TILE = 512,
    MEASURE_ROUNDS = 5,
    MEASURE_MOST_MS = 1500,
};

static const size_t default_loss_head_bytes = (size_t)256 << 20;

/* ---- buffers: plain host memory, one block per local rank ---- */

/* Takes one of which only some ranks have memory. */
static void buffer_destroy(struct buffer *base)
{
    struct cpu_buffer *buffer = (struct cpu_buffer *)base;
    for (int rank = 0; rank < base->engine->n_local_ranks && !base->is_borrowed;
         rank++) {
        mem_free(buffer->memory[rank]);
    }
    mem_free(buffer->memory);
    mem_free(buffer);
}

/* Every rank has the same local shape, so one type and one size describe all blocks. */
static struct buffer *buffer_create(struct engine *engine, const struct type *type,
                                    const char *name, struct error *err)
{
    struct cpu_buffer *buffer = mem_alloc(sizeof(*buffer));
    buffer->base.engine = engine;
    buffer->base.type = *type;
    buffer->bytes = type_bytes(type);
    buffer->memory =
        mem_alloc_array((size_t)engine->n_local_ranks, sizeof(*buffer->memory));
    for (int rank = 0; rank < engine->n_local_ranks; rank++) {
        /* At least one byte, so that empty values have an address too. */
        const size_t bytes = buffer->bytes > 0 ? buffer->bytes : 1;
        buffer->memory[rank] = mem_try_alloc(bytes, name, err);
        if (buffer->memory[rank] == NULL) {
            buffer_destroy(&buffer->base);
            return NULL;
        }
        /* Touches every page now: a run that will not fit ends here, not in a step. */
        memset(buffer->memory[rank], 0, bytes);
    }
    return &buffer->base;
}

/* Every rank reads the caller's memory; nothing in the engine writes to a parameter
 * that is no donor. */
static struct buffer *buffer_borrow(struct engine *engine, const struct type *type,
                                    const char *name, const void *host,
                                    struct error *err)
{
    (void)name;
    (void)err;
    struct cpu_buffer *buffer = mem_alloc(sizeof(*buffer));
    buffer->base.engine = engine;
    buffer->base.type = *type;
    buffer->base.is_borrowed = true;
    buffer->bytes = type_bytes(type);
    buffer->memory =
        mem_alloc_array((size_t)engine->n_local_ranks, sizeof(*buffer->memory));
    for (int rank = 0; rank < engine->n_local_ranks; rank++) {
        buffer->memory[rank] = (void *)(uintptr_t)host;
    }
    return &buffer->base;
}

/* Runs are over when execute returns, so there is nothing to wait for. */
static bool buffer_upload(struct buffer *base, int local, const void *host,
                          struct error *err)
{
    (void)err;
    const struct cpu_buffer *buffer = (const struct cpu_buffer *)base;
    memcpy(buffer->memory[local], host, buffer->bytes);
    return true;
}

static bool buffer_fetch(struct buffer *base, int local, void *host, struct error *err)
{
    (void)err;
    const struct cpu_buffer *buffer = (const struct cpu_buffer *)base;
    memcpy(host, buffer->memory[local], buffer->bytes);
    return true;
}

/* The memory itself: writing to it is uploading. */
static void *buffer_host(struct buffer *base, int local)
{
    return ((struct cpu_buffer *)base)->memory[local];
}

/* ---- arenas and scratch ---- */

/* NULL where the engine was not finished. */
static void free_blocks(void **owned_blocks, int n)
{
    for (int i = 0; owned_blocks != NULL && i < n; i++) {
        mem_free(owned_blocks[i]);
    }
    mem_free(owned_blocks);
}

/* A program that outlives its engine would read freed arenas, hence the assertion. */
static void engine_destroy(struct engine *base)
{
    struct cpu_engine *engine = (struct cpu_engine *)base;
    ASSERT(engine->programs == NULL);
    if (engine->pool != NULL) {
        free_blocks(engine->thread_scratch, pool_n_threads(engine->pool));
    }
    free_blocks(engine->arenas, base->n_local_ranks);
    pool_destroy(engine->pool);
    trace_destroy(engine->trace);
    mem_free(engine);
}

static const char *engine_describe(const struct engine *base)
{
    return ((const struct cpu_engine *)base)->description;
}

/* Old blocks go first: nothing in them is of use, and both at once might not fit. On
 * failure some blocks are NULL and the caller's size stays 0, so the next call begins
 * anew. */
static bool grow_blocks(void **blocks, int n, size_t bytes, const char *what,
                        struct error *err)
{
    for (int i = 0; i < n; i++) {
        mem_free(blocks[i]);
        blocks[i] = NULL;
    }
    for (int i = 0; i < n; i++) {
        blocks[i] = mem_try_alloc(bytes, what, err);
        if (blocks[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Sizes only grow: programs that were compiled before still fit. */
bool engine_reserve(struct cpu_engine *engine, size_t arena_bytes, size_t thread_bytes,
                    struct error *err)
{
    if (arena_bytes > engine->arena_bytes) {
        engine->arena_version++;
        engine->arena_bytes = 0; /* until all are there */
        if (!grow_blocks(engine->arenas, engine->base.n_local_ranks, arena_bytes,
                         "working memory of the engine", err)) {
            return false;
        }
        engine->arena_bytes = arena_bytes;
    }
    if (thread_bytes > engine->thread_bytes) {
        engine->thread_bytes = 0;
        if (!grow_blocks(engine->thread_scratch, pool_n_threads(engine->pool),
                         thread_bytes, "scratch of the engine's threads", err)) {
            return false;
        }
        engine->thread_bytes = thread_bytes;
    }
    return true;
}

/* ---- products that nobody asked for: warming up, measuring ---- */

/* One tile of a product of square matrices; c has a place of its own per tile. */
struct square_product {
    const struct gemm *gemm;
    int64_t side, tile;
    const float *a, *b; /* [side, side] */
    float *c;           /* [side, side] */
    int n_threads;      /* warming: threads that must arrive */
    _Atomic int n_arrived;
};

/*
 * Libraries prepare themselves on a thread's first call (memory, thread counts). Each
 * task waits until all have begun, so every thread of the pool gets one of them.
 */
static void warm_thread(void *context, int64_t task, int thread)
{
    (void)thread;
    struct square_product *product = context;
    atomic_fetch_add(&product->n_arrived, 1);
    while (atomic_load(&product->n_arrived) < product->n_threads) {
        sched_yield(); /* there may be fewer processors than threads */
    }
    const int64_t side = product->side;
    product->gemm->f32(false, true, side, side, side, product->a, side, product->b,
                       side, false, product->c + task * side * side, side);
}

/* All inputs are zero: it is the call that counts. */
static bool warm_threads(struct cpu_engine *engine, struct error *err)
{
    const int n_threads = pool_n_threads(engine->pool);
    const size_t area = (size_t)WARM_SIDE * WARM_SIDE;
    const size_t bytes = (1 + (size_t)n_threads) * area * sizeof(float);
    float *memory = mem_try_alloc(bytes, "matrices that warm up the engine", err);
    if (memory == NULL) {
        return false;
    }
    memset(memory, 0, bytes);
    struct square_product product = {
        .gemm = engine->gemm,
        .side = WARM_SIDE,
        .a = memory,
        .b = memory,
        .c = memory + area,
        .n_threads = n_threads,
    };
    pool_run(engine->pool, n_threads, warm_thread, &product);
    mem_free(memory);
    return true;
}

/* Tiles as the matmul kernel cuts them, of the whole inner dimension. */
static void multiply_tile(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct square_product *product = context;
    const int64_t side = product->side;
    const int64_t tile = product->tile;
    const int64_t row = task / (side / tile) * tile;
    const int64_t column = task % (side / tile) * tile;
    product->gemm->f32(false, false, tile, tile, side, product->a + row * side, side,
                       product->b + column, side, false,
                       product->c + row * side + column, side);
}

/* A product [n, n] x [n, n] takes 2 n^3 operations. The operands are numbers of
 * ordinary size: zeros or subnormal ones may run at another speed. */
static double measure_gemm(const struct cpu_engine *engine, const struct gemm *gemm)
{
    const size_t area = (size_t)MEASURE_SIDE * MEASURE_SIDE;
    float *memory = mem_alloc(3 * area * sizeof(float));
    for (size_t i = 0; i < 2 * area; i++) {
        memory[i] = (float)(i % 1013) * 1e-3f;
    }
    struct square_product product = {
        .gemm = gemm,
        .side = MEASURE_SIDE,
        .tile = MEASURE_TILE,
        .a = memory,
        .b = memory + area,
        .c = memory + 2 * area,
    };
    const int64_t tiles = MEASURE_SIDE / MEASURE_TILE;
    /* The best of some rounds: what disturbs a round makes it slower, never faster. On a
     * machine on which they take seconds, two have to do. */
    double best = 0.0;
    const int64_t first = clock_now_ns();
    for (int round = 0; round < MEASURE_ROUNDS &&
                        (round < 2 || clock_since_ms(first) < MEASURE_MOST_MS);
         round++) {
        const int64_t start = clock_now_ns();
        pool_run(engine->pool, tiles * tiles, multiply_tile, &product);
        const double seconds = clock_since_ms(start) / 1e3;
        const double side = MEASURE_SIDE;
        const double gflops = 2.0 * side * side * side / seconds / 1e9;
        best = gflops > best ? gflops : best;
    }
    mem_free(memory);
    return best;
}

static double measure_gemm_gflops(struct engine *base)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)base;
    return measure_gemm(engine, engine->gemm);
}

/* The plain one is far behind libraries, and slow to measure: it counts where it is the
 * only one. */
static double measure_best_gemm(struct engine *base, const char **provider)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)base;
    double best = 0.0;
    for (int i = 0; gemm_name(i) != NULL && (i == 0 || gemm_name(i + 1) != NULL); i++) {
        struct error err;
        const struct gemm *gemm = gemm_find(gemm_name(i), &err);
        ASSERT(gemm != NULL);
        const double gflops = measure_gemm(engine, gemm);
        if (gflops > best) {
            best = gflops;
            *provider = gemm->name;
        }
    }
    return best;
}

static bool write_trace(const struct engine *base, const char *path, struct error *err)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)base;
    ASSERT(engine->trace != NULL);
    return trace_write(engine->trace, engine->description, path, err);
}

static void reset_profile(struct engine *base)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)base;
    profile_reset(base);
    if (engine->trace != NULL) {
        trace_reset(engine->trace);
    }
}

static const struct dispatch cpu_dispatch = {
    .expands_repeats = true,
    .destroy = engine_destroy,
    .describe = engine_describe,
    .compile = program_create,
    .program_destroy = program_destroy,
    .program_bytes = program_bytes,
    .plan_bytes = program_plan_bytes,
    .buffer_create = buffer_create,
    .buffer_borrow = buffer_borrow,
    .buffer_destroy = buffer_destroy,
    .upload = buffer_upload,
    .fetch = buffer_fetch,
    .buffer_host = buffer_host,
    .execute = executor_run,
    .profile_print = profile_print,
    .profile_reset = reset_profile,
    .profile_ops = profile_ops,
    .trace_write = write_trace,
    .measure_gemm_gflops = measure_gemm_gflops,
    .measure_best_gemm = measure_best_gemm,
};

/* The provider is found before the pool is made, since a wrong name should cost
 * nothing; threads are warmed last, when all else is there. */
struct engine *engine_create(const struct mesh *mesh, int first_rank, int n_local_ranks,
                             const struct backend_options *options, struct error *err)
{
    struct cpu_engine *engine = mem_alloc(sizeof(*engine));
    engine->base = (struct engine){.dispatch = &cpu_dispatch,
                                   .mesh = *mesh,
                                   .first_rank = first_rank,
                                   .n_local_ranks = n_local_ranks};
    engine->loss_head_bytes = options->loss_head_bytes > 0 ? options->loss_head_bytes
                                                           : default_loss_head_bytes;
    engine->profiles = options->profiles;
    engine->abandon = options->abandon;
    engine->native = native_find(options->isa);
    engine->gemm = gemm_find(options->gemm, err);
    if (engine->gemm == NULL) {
        goto fail;
    }
    engine->pool = pool_create(options->n_threads, err);
    if (engine->pool == NULL) {
        goto fail;
    }
    const int n_threads = pool_n_threads(engine->pool);
    engine->trace = options->traces ? trace_create(n_threads) : NULL;
    /* Never empty, so that operands of programs without working memory have
     * addresses. */
    engine->arenas = mem_alloc_array((size_t)n_local_ranks, sizeof(*engine->arenas));
    engine->thread_scratch =
        mem_alloc_array((size_t)n_threads, sizeof(*engine->thread_scratch));
    if (!engine_reserve(engine, MEM_ALIGNMENT, MEM_ALIGNMENT, err) ||
        !warm_threads(engine, err)) {
        goto fail;
    }
    snprintf(engine->description, sizeof(engine->description),
             "cpu, %d thread%s, %s, %s", n_threads, n_threads == 1 ? "" : "s",
             engine->native->name, engine->gemm->name);
    return &engine->base;
fail:
    engine_destroy(&engine->base);
    return NULL;
}
