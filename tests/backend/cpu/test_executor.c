/*
 * The executor: the same bits at any number of threads and from run to run (G6), nothing
 * allocated between the start and the end of a step, ranks in lockstep.
 */
#include "backend/cpu/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "graph/grad.h"
#include "support/engine_run.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OWN_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_OWN_ALLOCATOR 1
#endif
#endif

static _Atomic bool is_counting;
static _Atomic int n_allocations;

#ifndef HAS_OWN_ALLOCATOR
/* Every allocation of this process, in whatever library, comes by here. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *old, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);

static void count(void)
{
    if (atomic_load(&is_counting)) {
        atomic_fetch_add(&n_allocations, 1);
    }
}

void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    count();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}
#endif

static const char *const layer_outputs[] = {"loss", "acc.table", "acc.gain", "acc.w1",
                                            "acc.w2"};

/*
 * Something like a layer and its gradient, large enough for several tasks per node:
 * h = gelu(norm(x) W1^T) W2^T, loss = sum((x + h)^2), gradients of both weights added to
 * accumulators, a sum of everything, a gather and its scatter.
 */
static struct graph *layer_graph(void)
{
    enum { ROWS = 200, WIDTH = 192, HIDDEN = 640 };
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *table =
        build_input(graph, "table", type_make(DTYPE_F32, 2, (int64_t[]){300, WIDTH}));
    struct value *ids =
        build_input(graph, "ids", type_make(DTYPE_I32, 1, (int64_t[]){ROWS}));
    struct value *gain = build_parameter(
        graph, "gain", type_make(DTYPE_F32, 1, (int64_t[]){WIDTH}), true);
    struct value *w1 = build_parameter(
        graph, "w1", type_make(DTYPE_F32, 2, (int64_t[]){HIDDEN, WIDTH}), true);
    struct value *w2 = build_parameter(
        graph, "w2", type_make(DTYPE_F32, 2, (int64_t[]){WIDTH, HIDDEN}), true);
    struct value *x = build_gather_rows(graph, table, ids, -1);
    struct value *h = build_rms_norm(graph, x, gain, 1e-6, true);
    h = build_gelu_tanh(graph, build_linear(graph, h, w1));
    struct value *y = build_add(graph, x, build_linear(graph, h, w2));
    struct value *loss =
        build_reduce_sum(graph, build_mul(graph, y, y), 2, (int[]){0, 1});
    struct value *seed = build_scalar(graph, DTYPE_F32, 1.0);
    struct value *const wrt[] = {table, gain, w1, w2};
    struct value *gradients[ARRAY_LENGTH(wrt)];
    const struct grad_options options = {0};
    grad_build(graph, 1, &loss, &seed, (int)ARRAY_LENGTH(wrt), wrt, &options,
               gradients);
    graph_add_output(graph, "loss", loss, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(wrt); i++) {
        const char *name = layer_outputs[i + 1];
        struct value *acc = build_input(graph, name, wrt[i]->type);
        graph_add_output(graph, name, build_add(graph, acc, gradients[i]), acc);
    }
    return graph;
}

static void set_ids(struct engine_run *run)
{
    int32_t *ids = engine_run_argument(run, "ids", 0);
    for (int i = 0; i < 200; i++) {
        ids[i] = i * 7919 % 97; /* each several times */
    }
}

/* All outputs of three steps, one after the other. */
static unsigned char *run_layer(const struct backend_options *options, size_t *bytes)
{
    struct engine_run *run = engine_run_create(layer_graph(), options);
    engine_run_fill(run, 5, 0.1);
    set_ids(run);
    for (int i = 0; i < 3; i++) {
        engine_run_execute(run);
    }
    const struct graph *graph = backend_program_graph(engine_run_program(run));
    *bytes = 0;
    for (int i = 0; i < graph->n_outputs; i++) {
        *bytes += type_bytes(&graph->outputs[i].value->type);
    }
    unsigned char *all = mem_alloc(*bytes);
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(layer_outputs); i++) {
        const int output = graph_find_output(graph, layer_outputs[i]);
        const size_t n = type_bytes(&graph->outputs[output].value->type);
        memcpy(all + at, engine_run_output(run, layer_outputs[i], 0), n);
        at += n;
    }
    assert_int_equal(at, *bytes);
    engine_run_destroy(run);
    return all;
}

/* G6 */
static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    static const int n_threads[] = {1, 2, 3, 2};
    size_t bytes;
    struct backend_options options = {.n_threads = 1, .isa = BACKEND_ISA_BEST};
    unsigned char *first = run_layer(&options, &bytes);
    float loss;
    memcpy(&loss, first, sizeof(loss));
    assert_true(loss > 1.0f && loss < 1e6f);
    for (size_t i = 0; i < ARRAY_LENGTH(n_threads); i++) {
        options.n_threads = n_threads[i];
        unsigned char *again = run_layer(&options, &bytes);
        assert_memory_equal(first, again, bytes);
        mem_free(again);
    }
    mem_free(first);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    /* oneDNN takes packing memory from the heap in every call, so it is left out. */
#ifdef LATHE_PLAIN_GEMM
    static const char *const gemms[] = {"plain"};
#else
    static const char *const gemms[] = {"plain", "openblas"};
#endif
    for (size_t i = 0; i < ARRAY_LENGTH(gemms); i++) {
        const struct backend_options options = {
            .n_threads = 2, .isa = BACKEND_ISA_BEST, .gemm = gemms[i]};
        struct engine_run *run = engine_run_create(layer_graph(), &options);
        atomic_store(&n_allocations, 0);
        atomic_store(&is_counting, true);
        engine_run_execute(run);
        engine_run_execute(run);
        atomic_store(&is_counting, false);
        if (atomic_load(&n_allocations) != 0) {
            fail_msg("%s: %d allocations in two steps", gemms[i],
                     atomic_load(&n_allocations));
        }
        engine_run_destroy(run);
    }
#ifndef HAS_OWN_ALLOCATOR
    atomic_store(&is_counting, true);
    mem_free(mem_alloc(1)); /* the counter counts */
    atomic_store(&is_counting, false);
    assert_int_equal(atomic_load(&n_allocations), 1);
#endif
}

/* Every rank goes through every node: ranks with parts of a sum get the whole. */
static void ranks_run_in_lockstep(void **state)
{
    (void)state;
    enum { N_RANKS = 5, N = 40000 };
    const struct mesh mesh = {{1, N_RANKS, 1}};
    struct graph *graph = graph_create(&mesh);
    struct type type = type_make(DTYPE_F32, 1, (int64_t[]){N});
    type.placement = placement_split(MESH_SHARD, 0);
    struct value *x = build_input(graph, "x", type);
    struct value *total = build_all_reduce(
        graph, build_reduce_sum(graph, x, 1, (int[]){0}), MESH_SHARD, REDUCE_SUM);
    struct value *share = build_div(graph, x, total);
    struct value *ones = build_all_reduce(
        graph, build_reduce_sum(graph, share, 1, (int[]){0}), MESH_SHARD, REDUCE_SUM);
    graph_add_output(graph, "total", total, NULL);
    graph_add_output(graph, "ones", ones, NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    for (int rank = 0; rank < N_RANKS; rank++) {
        float *values = engine_run_argument(run, "x", rank);
        for (int i = 0; i < N; i++) {
            values[i] = (float)(rank + 1);
        }
    }
    engine_run_execute(run);
    for (int rank = 0; rank < N_RANKS; rank++) {
        const float *sum = engine_run_output(run, "total", rank);
        const float *one = engine_run_output(run, "ones", rank);
        assert_true(*sum == 15.0f * N);
        assert_true(*one > 0.99999f && *one < 1.00001f);
    }
    engine_run_destroy(run);
}

/* Once the flag is up, a program that may be abandoned ends as cancelled and its outputs
 * stay undelivered; one that may not runs to its end (an update is never cut). */
static void only_marked_programs_are_abandoned(void **state)
{
    (void)state;
    static _Atomic int flag;
    const struct backend_options options = {
        .n_threads = 1, .isa = BACKEND_ISA_BEST, .abandon = &flag};
    const struct mesh mesh = mesh_single();
    struct error err;
    struct engine *engine = backend_create_cpu(&mesh, 0, 1, &options, &err);
    assert_non_null(engine);
    struct graph *graph = graph_create(&mesh);
    const struct type type = type_make(DTYPE_F32, 1, (int64_t[]){4});
    struct value *x = build_input(graph, "x", type);
    struct value *root = build_sqrt(graph, build_exp(graph, x));
    graph_add_output(graph, "y", build_add(graph, root, x), NULL);
    struct program *program = backend_compile(engine, graph, &err);
    struct buffer *argument = backend_buffer_create(engine, &type, "x", &err);
    struct buffer *output = backend_buffer_create(engine, &type, "y", &err);
    assert_true(program != NULL && argument != NULL && output != NULL);
    const float *y = backend_buffer_host(output, 0);

    atomic_store(&flag, 15);
    assert_true(backend_execute(program, &argument, &output, &err)); /* not marked */
    assert_true(y[0] == 1.0f);
    backend_program_allow_abandon(program);
    assert_false(backend_execute(program, &argument, &output, &err));
    assert_int_equal(err.kind, ERROR_CANCELLED);
    atomic_store(&flag, 0);
    assert_true(backend_execute(program, &argument, &output, &err));

    backend_buffer_destroy(argument);
    backend_buffer_destroy(output);
    backend_program_destroy(program);
    backend_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(ranks_run_in_lockstep),
        cmocka_unit_test(only_marked_programs_are_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
