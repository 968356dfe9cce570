/*
 * What compiling leaves: steps for nodes that do something and no others, composites
 * lowered where there is no kernel for their dtype, operands inside the arena.
 */
#include "backend/cpu/program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build.h"
#include "support/engine_run.h"

static const struct cpu_program *program_of(struct engine_run *run)
{
    return (const struct cpu_program *)engine_run_program(run);
}

static int count_ops(const struct cpu_program *program, enum op op)
{
    int n = 0;
    for (int i = 0; i < program->n_steps; i++) {
        n += program->steps[i].node->op == op;
    }
    return n;
}

static void views_are_no_steps(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){4, 6}));
    struct value *y = build_exp(graph, x);
    y = build_reshape(graph, y, type_shape(1, (int64_t[]){24}));
    y = build_barrier(graph, build_slice_axis(graph, y, 0, 6, 18));
    graph_add_output(graph, "y", build_tanh(graph, y), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 1, 1.0);
    engine_run_execute(run);
    assert_int_equal(program_of(run)->n_steps, 2);
    const float *from = engine_run_argument(run, "x", 0);
    const float *to = engine_run_output(run, "y", 0);
    for (int i = 0; i < 12; i++) {
        assert_true(to[i] == tanhf(expf(from[6 + i])));
    }
    engine_run_destroy(run);
}

/* Normalised rows in f64, f32 and bf16: one meaning, three programs. */
static void check_norm(enum dtype dtype, bool is_native, double bound)
{
    enum { ROWS = 3, WIDTH = 40 };
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(dtype, 2, (int64_t[]){ROWS, WIDTH}));
    struct value *y = build_rms_norm(graph, x, NULL, 1e-6, false);
    graph_add_output(graph, "y", build_cast(graph, y, DTYPE_F64), NULL);
    graph_add_output(graph, "x", build_cast(graph, x, DTYPE_F64), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 1, 1.0);
    engine_run_execute(run);
    if (dtype != DTYPE_BF16) { /* whether bf16 is native is not promised */
        assert_int_equal(count_ops(program_of(run), OP_RMS_NORM), is_native ? 1 : 0);
    }
    const double *from = engine_run_output(run, "x", 0);
    const double *to = engine_run_output(run, "y", 0);
    for (int i = 0; i < ROWS; i++) {
        double squares = 0.0;
        for (int j = 0; j < WIDTH; j++) {
            squares += from[i * WIDTH + j] * from[i * WIDTH + j];
        }
        for (int j = 0; j < WIDTH; j++) {
            const double expected = from[i * WIDTH + j] / sqrt(squares / WIDTH + 1e-6);
            assert_true(fabs(to[i * WIDTH + j] - expected) <= bound);
        }
    }
    engine_run_destroy(run);
}

static void composites_are_lowered_by_dtype(void **state)
{
    (void)state;
    check_norm(DTYPE_F64, false, 1e-14);
    check_norm(DTYPE_F32, true, 1e-6);
    check_norm(DTYPE_BF16, false, 0x1p-7);
}

static void operands_lie_in_the_arena(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){100, 3000}));
    struct value *sums = build_reduce_sum(graph, build_exp(graph, x), 1, (int[]){0});
    graph_add_output(graph, "y", build_log(graph, sums), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_execute(run);
    const struct cpu_program *program = program_of(run);
    const struct cpu_engine *engine = (const struct cpu_engine *)engine_run_engine(run);
    assert_true(engine->arena_bytes >= program->arena_bytes);
    const unsigned char *arena = engine->arenas[0];
    assert_true(program->n_outside > 0 && program->n_outside < program->n_places);
    for (int i = program->n_outside; i < program->n_places; i++) {
        const unsigned char *at = *program->places[i].address;
        assert_true(at >= arena && at < arena + program->arena_bytes);
    }
    assert_true(*(const float *)engine_run_output(run, "y", 0) == logf(100.0f));
    engine_run_destroy(run);
}

/* Attention writes its log-sum-exp whether or not somebody reads it. */
static void unread_results_have_a_place(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *q =
        build_input(graph, "q", type_make(DTYPE_F32, 4, (int64_t[]){1, 8, 2, 16}));
    struct value *first_key =
        build_input(graph, "first_key", type_make(DTYPE_I32, 2, (int64_t[]){1, 8}));
    struct value *unread;
    struct value *y = build_attention(graph, q, q, q, first_key, 1.0, 0, &unread);
    graph_add_output(graph, "y", y, NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 1, 1.0);
    engine_run_execute(run);
    /* The first query sees the first key alone. */
    assert_memory_equal(engine_run_output(run, "y", 0),
                        engine_run_argument(run, "q", 0), 2 * 16 * sizeof(float));
    engine_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_no_steps),
        cmocka_unit_test(composites_are_lowered_by_dtype),
        cmocka_unit_test(operands_lie_in_the_arena),
        cmocka_unit_test(unread_results_have_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
