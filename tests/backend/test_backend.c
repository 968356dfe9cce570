/*
 * The engine behind backend.h: round trips, donors, views, outputs that are arguments,
 * stacked parameters, and what it says about itself.
 */
#include "backend/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/str.h"
#include "graph/build.h"
#include "support/engine_run.h"

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static struct type vector(int64_t n)
{
    return type_make(DTYPE_F32, 1, &n);
}

static void buffers_keep_what_is_uploaded(void **state)
{
    (void)state;
    const struct mesh mesh = {{2, 1, 1}};
    const struct backend_options options = {.n_threads = 1, .isa = BACKEND_ISA_PLAIN};
    struct error err;
    struct engine *engine = backend_create_cpu(&mesh, 0, 2, &options, &err);
    assert_non_null(engine);
    assert_int_equal(backend_n_local_ranks(engine), 2);
    assert_true(backend_expands_repeats(engine));
    const struct type type = vector(3);
    struct buffer *buffer = backend_buffer_create(engine, &type, "x", &err);
    assert_non_null(buffer);
    float there[3];
    assert_true(backend_fetch(buffer, 1, there, &err));
    assert_memory_equal(there, ((float[]){0, 0, 0}), sizeof(there));
    const float sent[2][3] = {{1, 2, 3}, {4, 5, 6}};
    for (int rank = 0; rank < 2; rank++) {
        assert_true(backend_upload(buffer, rank, sent[rank], &err));
    }
    for (int rank = 0; rank < 2; rank++) {
        assert_true(backend_fetch(buffer, rank, there, &err));
        assert_memory_equal(there, sent[rank], sizeof(there));
        assert_memory_equal(backend_buffer_host(buffer, rank), sent[rank],
                            sizeof(there));
    }
    assert_true(type_equal(backend_buffer_type(buffer), &type));
    backend_buffer_destroy(buffer);
    backend_destroy(engine);
}

/* Memory of the caller is read where it is, by every rank, and not freed. */
static void parameters_can_be_borrowed(void **state)
{
    (void)state;
    struct error err;
    const float weights[5] = {9, 1, 2, 3, 9};
    const float *inner = weights + 1; /* aligned to its elements, no more */
    struct graph *graph = new_graph();
    struct value *w = build_parameter(graph, "w", vector(3), false);
    graph_add_output(graph, "y", build_scale(graph, w, 2.0), NULL);
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {.n_threads = 1, .isa = BACKEND_ISA_BEST};
    struct engine *engine = backend_create_cpu(&mesh, 0, 1, &options, &err);
    struct program *program = backend_compile(engine, graph, &err);
    assert_non_null(program);
    const struct type type = vector(3);
    struct buffer *borrowed = backend_buffer_borrow(engine, &type, "w", inner, &err);
    struct buffer *y = backend_buffer_create(engine, &type, "y", &err);
    assert_non_null(borrowed);
    assert_ptr_equal(backend_buffer_host(borrowed, 0), inner);
    assert_true(backend_execute(program, &borrowed, &y, &err));
    assert_memory_equal(backend_buffer_host(y, 0), ((float[]){2, 4, 6}), 12);
    float there[3];
    assert_true(backend_fetch(borrowed, 0, there, &err));
    assert_memory_equal(there, inner, sizeof(there));
    backend_buffer_destroy(borrowed);
    backend_buffer_destroy(y);
    backend_program_destroy(program);
    backend_destroy(engine);
    assert_true(weights[1] == 1 && weights[3] == 3);
}

static void programs_compute(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = build_input(graph, "x", vector(3));
    (void)build_input(graph, "unused", vector(5));
    struct value *y = build_input(graph, "y", vector(3));
    graph_add_output(graph, "sum", build_add(graph, x, y), NULL);
    graph_add_output(graph, "scaled", build_scale(graph, build_mul(graph, x, y), 2.0),
                     NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "x", 0), (float[]){1, 2, 3}, 12);
    memcpy(engine_run_argument(run, "y", 0), (float[]){4, 5, 6}, 12);
    engine_run_execute(run);
    assert_memory_equal(engine_run_output(run, "sum", 0), ((float[]){5, 7, 9}), 12);
    assert_memory_equal(engine_run_output(run, "scaled", 0), ((float[]){8, 20, 36}),
                        12);
    engine_run_destroy(run);
}

/* A step on donated state: each run goes on where the last one ended. */
static void donors_carry_state(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *count = build_input(graph, "count", vector(2));
    struct value *by = build_input(graph, "by", vector(2));
    graph_add_output(graph, "count", build_add(graph, count, by), count);
    graph_add_output(graph, "before", count, NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "by", 0), (float[]){1, 10}, 8);
    for (int i = 0; i < 3; i++) {
        engine_run_execute(run);
        const float before[2] = {(float)i, (float)(10 * i)};
        const float after[2] = {(float)(i + 1), (float)(10 * (i + 1))};
        assert_memory_equal(engine_run_output(run, "before", 0), before, 8);
        assert_memory_equal(engine_run_argument(run, "count", 0), after, 8);
    }
    engine_run_destroy(run);
}

/* Reshapes and contiguous slices are their operand's memory, also as outputs. */
static void views_read_and_deliver(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){3, 2}));
    struct value *row = build_slice_axis(graph, x, 0, 1, 2); /* [1, 2], a view */
    struct value *flat = build_reshape(graph, row, type_shape(1, (int64_t[]){2}));
    struct value *doubled = build_add(graph, x, x);
    graph_add_output(graph, "flat", flat, NULL);
    graph_add_output(graph, "negated", build_scale(graph, flat, -1.0), NULL);
    graph_add_output(graph, "last", build_slice_axis(graph, doubled, 0, 2, 3), NULL);
    graph_add_output(graph, "doubled", doubled, NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "x", 0), (float[]){1, 2, 3, 4, 5, 6}, 24);
    engine_run_execute(run);
    assert_memory_equal(engine_run_output(run, "flat", 0), ((float[]){3, 4}), 8);
    assert_memory_equal(engine_run_output(run, "negated", 0), ((float[]){-3, -4}), 8);
    assert_memory_equal(engine_run_output(run, "last", 0), ((float[]){10, 12}), 8);
    assert_memory_equal(engine_run_output(run, "doubled", 0),
                        ((float[]){2, 4, 6, 8, 10, 12}), 24);
    engine_run_destroy(run);
}

/* The body's stacked parameter [3, 2] reaches the program as three slices. */
static void stacked_parameters_are_sliced(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = build_input(graph, "x", vector(2));
    const char *const names[] = {"w.0", "w.1", "w.2"};
    struct value *w = build_stacked_parameter(
        graph, "w", names, 3, type_make(DTYPE_F32, 2, (int64_t[]){3, 2}), true);
    struct graph *body = new_graph();
    (void)build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *carry = build_input(body, "carry", vector(2));
    struct value *slice = build_input(body, "slice", vector(2));
    graph_add_output(body, "carry",
                     build_add(body, build_scale(body, carry, 2.0), slice), NULL);
    struct node *repeat = build_repeat(graph, 3, body, &x, 1, &w, 1, NULL, 0, "layers");
    graph_add_output(graph, "y", repeat->outputs[0], NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "x", 0), (float[]){1, 0}, 8);
    memcpy(engine_run_argument(run, "w", 0), (float[]){1, 2, 3, 4, 5, 6}, 24);
    engine_run_execute(run);
    /* ((1 * 2 + 1) * 2 + 3) * 2 + 5 and ((0 + 2) * 2 + 4) * 2 + 6 */
    assert_memory_equal(engine_run_output(run, "y", 0), ((float[]){23, 22}), 8);
    engine_run_destroy(run);
}

/* Two programs of one engine share its arena; the bigger one moves it. */
static void programs_share_an_arena(void **state)
{
    (void)state;
    struct graph *small = new_graph();
    struct value *x = build_input(small, "x", vector(100));
    graph_add_output(small, "y",
                     build_exp(small, build_tanh(small, build_add(small, x, x))), NULL);
    struct engine_run *run = engine_run_create(small, NULL);
    engine_run_fill(run, 1, 1.0);
    engine_run_execute(run);
    float first[100];
    memcpy(first, engine_run_output(run, "y", 0), sizeof(first));

    struct graph *big = new_graph();
    struct value *z = build_input(big, "z", vector(1 << 20));
    struct value *sum = build_reduce_sum(
        big, build_tanh(big, build_add(big, build_exp(big, z), z)), 1, (int[]){0});
    graph_add_output(big, "sum", sum, NULL);
    const size_t planned = backend_plan_bytes(engine_run_engine(run), big);
    struct error err;
    struct program *program = backend_compile(engine_run_engine(run), big, &err);
    assert_non_null(program);
    assert_int_equal(planned, backend_program_bytes(program));
    assert_true(planned >= (size_t)4 << 20);

    engine_run_execute(run);
    assert_memory_equal(engine_run_output(run, "y", 0), first, sizeof(first));
    backend_program_destroy(program);
    engine_run_destroy(run);
}

static void engine_tells_what_it_is(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a =
        build_input(graph, "a", type_make(DTYPE_F32, 2, (int64_t[]){64, 64}));
    const char *outer = graph_push_scope(graph, "layers.3");
    graph_add_output(graph, "c", build_matmul(graph, a, a, false, false, DTYPE_F32),
                     NULL);
    graph_pop_scope(graph, outer);
    const struct backend_options options = {
        .n_threads = 2, .isa = BACKEND_ISA_PLAIN, .gemm = "plain", .profiles = true};
    struct engine_run *run = engine_run_create(graph, &options);
    struct engine *engine = engine_run_engine(run);
    assert_string_equal(backend_describe(engine), "cpu, 2 threads, plain, plain");
    engine_run_execute(run);
    engine_run_execute(run);
    struct str text = {0};
    backend_profile_print(engine, &text);
    assert_non_null(strstr(str_text(&text), "layers.*.matmul"));
    assert_non_null(strstr(str_text(&text), "GFLOP/s"));
    assert_null(strstr(str_text(&text), "nan"));
    backend_profile_reset(engine);
    str_deinit(&text);
    engine_run_destroy(run);
}

static void unknown_gemm_is_refused(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {.n_threads = 1, .gemm = "mkl"};
    struct error err;
    assert_null(backend_create_cpu(&mesh, 0, 1, &options, &err));
    assert_int_equal(err.kind, ERROR_USAGE);
    assert_non_null(strstr(err.message, "'mkl'"));
}

/* One of two ranks in this process: what joins both cannot run here. */
static void groups_across_processes_are_refused(void **state)
{
    (void)state;
    const struct mesh mesh = {{1, 2, 1}};
    const struct backend_options options = {.n_threads = 1};
    struct error err;
    struct engine *engine = backend_create_cpu(&mesh, 0, 1, &options, &err);
    assert_non_null(engine);
    struct graph *graph = graph_create(&mesh);
    struct type type = vector(4);
    type.placement = placement_split(MESH_SHARD, 0);
    struct value *x = build_input(graph, "x", type);
    graph_add_output(graph, "y", build_all_gather(graph, x, MESH_SHARD, 0), NULL);
    assert_null(backend_compile(engine, graph, &err));
    assert_non_null(strstr(err.message, "rank 1"));
    backend_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_keep_what_is_uploaded),
        cmocka_unit_test(parameters_can_be_borrowed),
        cmocka_unit_test(programs_compute),
        cmocka_unit_test(donors_carry_state),
        cmocka_unit_test(views_read_and_deliver),
        cmocka_unit_test(stacked_parameters_are_sliced),
        cmocka_unit_test(programs_share_an_arena),
        cmocka_unit_test(engine_tells_what_it_is),
        cmocka_unit_test(unknown_gemm_is_refused),
        cmocka_unit_test(groups_across_processes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
