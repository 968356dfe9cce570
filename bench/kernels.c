/*
 * kernels - speed of the native kernels at the shapes of Gemma 3 270M, 1 x 512 tokens.
 *
 * Kernels that compute are set beside the best product of the same threads, the others
 * beside the copying speed of memory (bytes that must move at least). Usage: kernels
 * [threads]; 0 or nothing: one per processor.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/random.h"
#include "graph/build.h"

enum {
    T = 512,
    D = 640,
    F = 2048,
    H = 4,
    G = 1,
    K = 256,
    V = 262144,
    MAX_OPERANDS = 8,
    MAX_THREADS = 256,
};

static const size_t LOSS_HEAD_BYTES = 256U << 20;
static const double SHORTEST_MS = 300; /* a kernel is repeated for so long */

/* What the rows of the table are set beside. */
struct machine {
    struct pool *pool;
    const struct gemm *gemm;
    const struct native *native;
    double gemm_gflops, copy_gbs;
    void *thread_scratch[MAX_THREADS];
};

struct run {
    struct kernel_call call;
    const struct kernel *kernel;
    struct machine *machine;
    int phase;
};

static void run_task(void *context, int64_t task, int thread)
{
    const struct run *run = context;
    run->kernel->run(&run->call, 0, run->phase, task,
                     run->machine->thread_scratch[thread]);
}

static void run_once(struct run *run)
{
    const struct node *node = run->call.node;
    const int n_phases = run->kernel->n_phases == NULL
                             ? 1
                             : run->kernel->n_phases(node, LOSS_HEAD_BYTES);
    for (run->phase = 0; run->phase < n_phases; run->phase++) {
        const int64_t n_tasks =
            run->kernel->n_tasks == NULL
                ? 1
                : run->kernel->n_tasks(node, run->phase, LOSS_HEAD_BYTES);
        pool_run(run->machine->pool, n_tasks, run_task, run);
    }
}

/* ---- operands ---- */

static void fill(const struct value *value, void *memory)
{
    const int64_t n = type_elements(&value->type);
    const char *name = value->node->name;
    if (value->type.dtype == DTYPE_F32) {
        float *x = memory;
        for (int64_t i = 0; i < n; i++) { /* any plain values do, the same ones often */
            x[i] = i < 4096 ? fabsf(random_normal(1, RANDOM_TEST, 0, (uint64_t)i))
                            : x[i & 4095];
        }
    } else if (value->type.dtype == DTYPE_I32) {
        int32_t *x = memory;
        const bool is_zero = strcmp(name, "first_key") == 0;
        for (int64_t i = 0; i < n; i++) {
            x[i] = is_zero ? 0 : (int32_t)i;
        }
    } else {
        memset(memory, 1, type_bytes(&value->type)); /* true */
    }
}

static void *allocate(size_t bytes)
{
    struct error err = {0};
    void *memory = mem_try_alloc(bytes, "a benchmark", &err);
    if (memory == NULL) {
        fprintf(stderr, "%s\n", err.message);
        exit(4);
    }
    memset(memory, 0, bytes);
    return memory;
}

/* Milliseconds of one run: the best, as other work on the machine only adds. */
static double measure_ms(struct run *run)
{
    double best = HUGE_VAL;
    double total = 0;
    for (int i = 0; i < 3 || total < SHORTEST_MS; i++) {
        const int64_t start = clock_now_ns();
        run_once(run);
        const double ms = clock_since_ms(start);
        best = fmin(best, ms);
        total += ms;
    }
    return best;
}

/* Runs the node's kernel and prints a line. gflop 0: bound by memory, `bytes` move. */
static void bench(struct machine *machine, const struct node *node, double gflop,
                  double bytes)
{
    void *inputs[MAX_OPERANDS];
    void *outputs[MAX_OPERANDS];
    const struct kernel *kernel = kernel_of(node->op);
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = allocate(type_bytes(&node->inputs[i]->type));
        fill(node->inputs[i], inputs[i]);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const int alias = graph_node_alias(node, i);
        outputs[i] =
            alias >= 0 ? inputs[alias] : allocate(type_bytes(&node->outputs[i]->type));
    }
    const struct kernel_rank rank = {
        .inputs = inputs,
        .outputs = outputs,
        .scratch = kernel->scratch_bytes == NULL
                       ? NULL
                       : allocate(kernel->scratch_bytes(node, LOSS_HEAD_BYTES)),
    };
    const size_t thread_bytes =
        kernel->thread_bytes == NULL ? 0 : kernel->thread_bytes(node);
    for (int i = 0; i < pool_n_threads(machine->pool); i++) {
        machine->thread_scratch[i] = allocate(thread_bytes + 1);
    }
    struct run run = {
        .call = {.node = node,
                 .n_ranks = 1,
                 .ranks = &rank,
                 .gemm = machine->gemm,
                 .native = machine->native,
                 .loss_head_bytes = LOSS_HEAD_BYTES},
        .kernel = kernel,
        .machine = machine,
    };
    const double ms = measure_ms(&run);
    if (gflop > 0) {
        printf("%-20s %9.3f ms %8.1f GFLOP/s %5.0f %% of the product\n",
               op_name(node->op), ms, gflop / ms * 1e3,
               100 * gflop / ms * 1e3 / machine->gemm_gflops);
    } else {
        printf("%-20s %9.3f ms %8.1f GB/s    %5.0f %% of copying\n", op_name(node->op),
               ms, bytes / ms * 1e-6, 100 * bytes / ms * 1e-6 / machine->copy_gbs);
    }
    fflush(stdout);
    for (int i = 0; i < node->n_outputs; i++) {
        if (graph_node_alias(node, i) < 0) {
            mem_free(outputs[i]);
        }
    }
    for (int i = 0; i < node->n_inputs; i++) {
        mem_free(inputs[i]);
    }
    for (int i = 0; i < pool_n_threads(machine->pool); i++) {
        mem_free(machine->thread_scratch[i]);
    }
    mem_free(rank.scratch);
}

/* ---- what the machine can do ---- */

enum { PRODUCT = 2048, PRODUCT_TILE = 512 };

struct product {
    const struct gemm *gemm;
    float *a, *b, *c;
};

static void product_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct product *product = context;
    const int64_t tiles = PRODUCT / PRODUCT_TILE;
    const int64_t i = task / tiles * PRODUCT_TILE;
    const int64_t j = task % tiles * PRODUCT_TILE;
    product->gemm->f32(false, true, PRODUCT_TILE, PRODUCT_TILE, PRODUCT,
                       product->a + i * PRODUCT, PRODUCT, product->b + j * PRODUCT,
                       PRODUCT, false, product->c + i * PRODUCT + j, PRODUCT);
}

static double measure_gemm(const struct machine *machine)
{
    const size_t bytes = sizeof(float) * PRODUCT * PRODUCT;
    struct product product = {machine->gemm, allocate(bytes), allocate(bytes),
                              allocate(bytes)};
    double best_ms = HUGE_VAL;
    for (int i = 0; i < 8; i++) {
        const int64_t start = clock_now_ns();
        pool_run(machine->pool,
                 (PRODUCT / PRODUCT_TILE) * (int64_t)(PRODUCT / PRODUCT_TILE),
                 product_task, &product);
        best_ms = fmin(best_ms, clock_since_ms(start));
    }
    mem_free(product.a);
    mem_free(product.b);
    mem_free(product.c);
    return 2e-6 * PRODUCT * PRODUCT * PRODUCT / best_ms;
}

enum { COPY_BLOCKS = 64, COPY_BLOCK_BYTES = 8 << 20 };

static void copy_task(void *context, int64_t task, int thread)
{
    (void)thread;
    unsigned char *block = (unsigned char *)context + task * 2 * COPY_BLOCK_BYTES;
    memcpy(block, block + COPY_BLOCK_BYTES, COPY_BLOCK_BYTES);
}

static double measure_copy(const struct machine *machine)
{
    void *memory = allocate(2 * (size_t)COPY_BLOCKS * COPY_BLOCK_BYTES);
    double best_ms = HUGE_VAL;
    for (int i = 0; i < 5; i++) {
        const int64_t start = clock_now_ns();
        pool_run(machine->pool, COPY_BLOCKS, copy_task, memory);
        best_ms = fmin(best_ms, clock_since_ms(start));
    }
    mem_free(memory);
    return 2e-6 * COPY_BLOCKS * COPY_BLOCK_BYTES / best_ms;
}

/* ---- the kernels ---- */

static struct value *input(struct graph *graph, const char *name, enum dtype dtype,
                           int rank, const int64_t *dim)
{
    return build_input(graph, name, type_make(dtype, rank, dim));
}

static void bench_rows(struct machine *machine, struct graph *graph)
{
    const int64_t hidden_dim[3] = {1, T, D};
    const int64_t q_dim[4] = {1, T, H, K};
    const int64_t inner_dim[3] = {1, T, F};
    const double f = sizeof(float);
    struct value *x = input(graph, "x", DTYPE_F32, 3, hidden_dim);
    struct value *dy = input(graph, "dy", DTYPE_F32, 3, hidden_dim);
    struct value *w = input(graph, "w", DTYPE_F32, 1, &hidden_dim[2]);
    struct value *q = input(graph, "q", DTYPE_F32, 4, q_dim);
    struct value *position = input(graph, "position", DTYPE_I32, 2, hidden_dim);
    struct value *gate = input(graph, "gate", DTYPE_F32, 3, inner_dim);
    struct value *up = input(graph, "up", DTYPE_F32, 3, inner_dim);

    struct value *y = build_rms_norm(graph, x, w, 1e-6, true);
    bench(machine, y->node, 0, 2 * f * T * D);
    struct value *norm_operands[3] = {x, w, dy};
    bench(machine,
          graph_append(graph, OP_RMS_NORM_GRAD, 3, norm_operands, &y->node->attributes,
                       NULL, NULL),
          0, 3 * f * T * D);
    bench(machine, build_rope(graph, q, position, 1e6, 1, K / 2)->node, 0,
          2 * f * T * H * K);
    struct value *m = build_geglu(graph, gate, up);
    bench(machine, m->node, 0, 3 * f * T * F);
    struct value *geglu_operands[3] = {gate, up, m};
    bench(machine,
          graph_append(graph, OP_GEGLU_GRAD, 3, geglu_operands, &m->node->attributes,
                       NULL, NULL),
          0, 5 * f * T * F);
}

/* Scores, and products with v: 2 products of T^2 K / 2 per head, both ways. */
static void bench_attention(struct machine *machine, struct graph *graph)
{
    const int64_t q_dim[4] = {1, T, H, K};
    const int64_t kv_dim[4] = {1, T, G, K};
    struct value *q = input(graph, "q", DTYPE_F32, 4, q_dim);
    struct value *k = input(graph, "k", DTYPE_F32, 4, kv_dim);
    struct value *v = input(graph, "v", DTYPE_F32, 4, kv_dim);
    struct value *first_key = input(graph, "first_key", DTYPE_I32, 2, q_dim);
    struct value *dout = input(graph, "dout", DTYPE_F32, 4, q_dim);
    const double gflop = 2e-9 * H * K * T * T;
    struct value *lse = NULL;
    struct value *out = build_attention(graph, q, k, v, first_key, 1.0 / 16, 0, &lse);
    bench(machine, out->node, gflop, 0);
    struct value *operands[7] = {q, k, v, first_key, out, lse, dout};
    bench(machine,
          graph_append(graph, OP_ATTENTION_GRAD, 7, operands, &out->node->attributes,
                       NULL, NULL),
          2.5 * gflop, 0);
}

static void bench_loss_head(struct machine *machine, struct graph *graph)
{
    const int64_t hidden_dim[2] = {T, D};
    const int64_t table_dim[2] = {V, D};
    struct value *hidden = input(graph, "hidden", DTYPE_F32, 2, hidden_dim);
    struct value *table = input(graph, "table", DTYPE_F32, 2, table_dim);
    struct value *rows = input(graph, "rows", DTYPE_I32, 1, hidden_dim);
    struct value *targets = input(graph, "targets", DTYPE_I32, 1, hidden_dim);
    struct value *weight = input(graph, "weight", DTYPE_F32, 1, hidden_dim);
    struct value *acc = input(graph, "acc", DTYPE_F32, 2, table_dim);
    struct value *keep = build_input(graph, "keep", type_scalar(DTYPE_BOOL));
    const double gflop = 2e-9 * T * D * V;
    bench(machine,
          build_loss_head(graph, hidden, table, rows, targets, weight,
                          &(struct loss_head_options){.cap = 0.0}, NULL, NULL),
          gflop, 0);
    bench(machine,
          build_loss_head(graph, hidden, table, rows, targets, weight,
                          &(struct loss_head_options){.with_gradient = true}, acc,
                          keep),
          3 * gflop, 0);
}

static void bench_update(struct machine *machine, struct graph *graph)
{
    const int64_t dim[2] = {V / 4, D};
    const double bytes = (double)sizeof(float) * V / 4 * D;
    struct value *p = input(graph, "p", DTYPE_F32, 2, dim);
    struct value *g = input(graph, "g", DTYPE_F32, 2, dim);
    struct value *m = input(graph, "m", DTYPE_F32, 2, dim);
    struct value *v = input(graph, "v", DTYPE_F32, 2, dim);
    struct value *hyper =
        input(graph, "hyper", DTYPE_F32, 1, (int64_t[]){ADAMW_N_HYPER});
    struct value *scale = build_input(graph, "scale", type_scalar(DTYPE_F32));
    struct value *apply = build_input(graph, "apply", type_scalar(DTYPE_BOOL));
    bench(machine, build_sum_squares(graph, g)->node, 0, bytes);
    bench(machine, build_accumulate(graph, m, apply, g)->node, 0, 3 * bytes);
    bench(machine, build_adamw(graph, p, g, m, v, hyper, scale, apply), 0, 7 * bytes);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct machine machine = {
        .pool = pool_create(argc > 1 ? atoi(argv[1]) : 0, &err),
        .gemm = gemm_find(NULL, &err),
        .native = native_find(BACKEND_ISA_BEST),
    };
    if (machine.pool == NULL || machine.gemm == NULL ||
        pool_n_threads(machine.pool) > MAX_THREADS) {
        fprintf(stderr, "kernels: %s\n", err.message);
        return 1;
    }
    machine.gemm_gflops = measure_gemm(&machine);
    machine.copy_gbs = measure_copy(&machine);
    printf("%d threads, %s, %s: product %.0f GFLOP/s, copying %.1f GB/s\n",
           pool_n_threads(machine.pool), machine.native->name, machine.gemm->name,
           machine.gemm_gflops, machine.copy_gbs);

    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    bench_rows(&machine, graph);
    graph_destroy(graph);
    graph = graph_create(&mesh);
    bench_attention(&machine, graph);
    bench_loss_head(&machine, graph);
    graph_destroy(graph);
    graph = graph_create(&mesh);
    bench_update(&machine, graph);
    graph_destroy(graph);
    pool_destroy(machine.pool);
    return 0;
}
