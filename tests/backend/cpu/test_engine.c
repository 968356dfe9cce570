/*
 * What programs share: arenas that grow and move, what happens when there is no room, and
 * the measured peak.
 */
#include "backend/cpu/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/gemm.h"
#include "base/error.h"
#include "graph/build.h"

static struct cpu_engine *create(int n_ranks, int n_threads)
{
    struct mesh mesh = mesh_single();
    mesh.size[MESH_REPLICA] = n_ranks;
    const struct backend_options options = {.n_threads = n_threads};
    struct error err;
    struct engine *engine = engine_create(&mesh, 0, n_ranks, &options, &err);
    assert_non_null(engine);
    return (struct cpu_engine *)engine;
}

static void arenas_grow_and_never_shrink(void **state)
{
    (void)state;
    struct cpu_engine *engine = create(3, 2);
    struct error err;
    assert_true(engine_reserve(engine, 1000, 100, &err));
    const uint64_t version = engine->arena_version;
    for (int rank = 0; rank < 3; rank++) {
        memset(engine->arenas[rank], rank, 1000);
    }
    for (int thread = 0; thread < 2; thread++) {
        memset(engine->thread_scratch[thread], 1, 100);
    }
    assert_true(engine_reserve(engine, 10, 10, &err));
    assert_int_equal(engine->arena_version, version);
    assert_int_equal(engine->arena_bytes, 1000);
    assert_true(engine_reserve(engine, 2000, 0, &err));
    assert_int_not_equal(engine->arena_version, version);
    memset(engine->arenas[2], 0, 2000);
    backend_destroy(&engine->base);
}

/* A program that does not fit leaves an engine that says so and recovers. */
static void no_room_is_an_error(void **state)
{
    (void)state;
    struct cpu_engine *engine = create(1, 1);
    struct error err;
    struct graph *graph = graph_create(&engine->base.mesh);
    const struct type type = type_make(DTYPE_F32, 1, (int64_t[]){1000});
    struct value *x = build_input(graph, "x", type);
    graph_add_output(graph, "y",
                     build_reduce_sum(graph, build_exp(graph, x), 1, (int[]){0}), NULL);
    struct program *program = backend_compile(&engine->base, graph, &err);
    assert_non_null(program);
    const struct type scalar = type_scalar(DTYPE_F32);
    struct buffer *in = backend_buffer_create(&engine->base, &type, "x", &err);
    struct buffer *out = backend_buffer_create(&engine->base, &scalar, "y", &err);
    assert_true(in != NULL && out != NULL);

    assert_false(engine_reserve(engine, SIZE_MAX, 0, &err));
    assert_int_equal(err.kind, ERROR_RESOURCE);
    assert_false(backend_execute(program, &in, &out, &err));
    assert_int_equal(err.kind, ERROR_RESOURCE);

    assert_true(engine_reserve(engine, backend_program_bytes(program), 0, &err));
    assert_true(backend_execute(program, &in, &out, &err));
    assert_true(*(float *)backend_buffer_host(out, 0) == 1000.0f);

    const struct type huge =
        type_make(DTYPE_F64, 2, (int64_t[]){(int64_t)1 << 31, (int64_t)1 << 29});
    assert_null(backend_buffer_create(&engine->base, &huge, "huge", &err));
    assert_non_null(strstr(err.message, "huge"));

    backend_buffer_destroy(in);
    backend_buffer_destroy(out);
    backend_program_destroy(program);
    backend_destroy(&engine->base);
}

/* The same for the scratch of threads, here that of a product of bf16. */
static void no_scratch_is_an_error(void **state)
{
    (void)state;
    struct cpu_engine *engine = create(1, 1);
    struct error err;
    struct graph *graph = graph_create(&engine->base.mesh);
    const struct type type = type_make(DTYPE_BF16, 2, (int64_t[]){16, 16});
    struct value *x = build_input(graph, "x", type);
    graph_add_output(graph, "y", build_matmul(graph, x, x, false, false, DTYPE_F32),
                     NULL);
    struct program *program = backend_compile(&engine->base, graph, &err);
    assert_non_null(program);
    const struct type result = type_make(DTYPE_F32, 2, (int64_t[]){16, 16});
    struct buffer *in = backend_buffer_create(&engine->base, &type, "x", &err);
    struct buffer *out = backend_buffer_create(&engine->base, &result, "y", &err);
    assert_true(in != NULL && out != NULL);

    const size_t bytes = engine->thread_bytes;
    assert_true(bytes > 0);
    assert_false(engine_reserve(engine, 0, SIZE_MAX, &err));
    assert_int_equal(err.kind, ERROR_RESOURCE);
    assert_false(backend_execute(program, &in, &out, &err));
    assert_int_equal(err.kind, ERROR_RESOURCE);
    assert_true(engine_reserve(engine, 0, bytes, &err));
    assert_true(backend_execute(program, &in, &out, &err));

    backend_buffer_destroy(in);
    backend_buffer_destroy(out);
    backend_program_destroy(program);
    backend_destroy(&engine->base);
}

static void every_option_has_a_default(void **state)
{
    (void)state;
    struct cpu_engine *engine = create(1, 0);
    struct error err;
    assert_int_equal(engine->loss_head_bytes, (size_t)256 << 20);
    assert_ptr_equal(engine->gemm, gemm_find(NULL, &err));
    assert_true(strncmp(backend_describe(&engine->base), "cpu, ", 5) == 0);
    backend_destroy(&engine->base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_grow_and_never_shrink),
        cmocka_unit_test(no_room_is_an_error),
        cmocka_unit_test(no_scratch_is_an_error),
        cmocka_unit_test(every_option_has_a_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
