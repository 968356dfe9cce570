/*
 * Definitions, where the numbers are known without another implementation: rows that see
 * nothing or carry no weight, far inputs, rotations that keep lengths, and what is refused.
 * Native kernels have to do the same. What all of them compute is checked in test_ops.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "graph/build.h"
#include "graph/define.h"
#include "graph/grad.h"
#include "graph/rewrite.h"
#include "support/engine_run.h"

static struct value *input(struct graph *graph, const char *name, enum dtype dtype,
                           int rank, const int64_t *dim)
{
    return build_input(graph, name, type_make(dtype, rank, dim));
}

/* By the definitions, or by native kernels where there are some. */
static struct engine_run *create_run(struct graph *owned_graph, bool is_lowered)
{
    if (!is_lowered) {
        return engine_run_create(owned_graph, NULL);
    }
    struct graph *lowered = rewrite_lower(owned_graph, NULL, false);
    graph_destroy(owned_graph);
    return engine_run_create(lowered, NULL);
}

/* Attention of one head over T tokens, with the gradient of its sum. */
static struct graph *attention_graph(int64_t T, int64_t K)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const int64_t dim[4] = {1, T, 1, K};
    struct value *x[3] = {input(graph, "q", DTYPE_F32, 4, dim),
                          input(graph, "k", DTYPE_F32, 4, dim),
                          input(graph, "v", DTYPE_F32, 4, dim)};
    struct value *first_key = input(graph, "first_key", DTYPE_I32, 2, dim);
    struct value *lse;
    struct value *out =
        build_attention(graph, x[0], x[1], x[2], first_key, 1.0, 0, &lse);
    struct value *seed = build_constant(graph, out->type, 1.0);
    struct value *gradients[3];
    const struct grad_options options = {.keeps_partial = false};
    grad_build(graph, 1, &out, &seed, 3, x, &options, gradients);
    graph_add_output(graph, "out", out, NULL);
    graph_add_output(graph, "lse", lse, NULL);
    graph_add_output(graph, "dq", gradients[0], NULL);
    graph_add_output(graph, "dk", gradients[1], NULL);
    graph_add_output(graph, "dv", gradients[2], NULL);
    return graph;
}

/* C10, C12: padding has output 0, log-sum-exp 0 and gradient 0, never NaN; and the first
 * token of a document copies its own value. */
static void check_hidden_rows(bool is_lowered)
{
    enum { T = 5, K = 3 };
    struct engine_run *run = create_run(attention_graph(T, K), is_lowered);
    engine_run_fill(run, 3, 50.0); /* scores in the thousands */
    const int32_t first_key[T] = {T, T, 2, 2, T};
    memcpy(engine_run_argument(run, "first_key", 0), first_key, sizeof(first_key));
    engine_run_execute(run);
    const float *v = engine_run_argument(run, "v", 0);
    const float *out = engine_run_output(run, "out", 0);
    const float *lse = engine_run_output(run, "lse", 0);
    static const char *const names[] = {"out", "dq", "dk", "dv"};
    for (int t = 0; t < T; t++) {
        const bool is_hidden = first_key[t] == T;
        assert_true(isfinite(lse[t]));
        assert_true(!is_hidden || lse[t] == 0.0f);
        for (size_t n = 0; n < ARRAY_LENGTH(names); n++) {
            const float *x = engine_run_output(run, names[n], 0);
            for (int k = 0; k < K; k++) {
                assert_true(isfinite(x[t * K + k]));
                assert_true(!is_hidden || x[t * K + k] == 0.0f);
            }
        }
    }
    for (int k = 0; k < K; k++) {
        assert_true(out[2 * K + k] == v[2 * K + k]);
    }
    engine_run_destroy(run);
}

/* C6, C12: rows of weight 0 may name any row and any target; they add nothing, and a batch
 * without weight has loss 0 and gradient 0. */
static void check_unweighted_rows(bool is_lowered)
{
    enum { N = 3, D = 4, V = 7, C = 2 };
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *hidden =
        input(graph, "hidden", DTYPE_F32, 2, (const int64_t[]){N, D});
    struct value *table = input(graph, "table", DTYPE_F32, 2, (const int64_t[]){V, D});
    const int64_t rows_dim[1] = {C};
    struct value *rows = input(graph, "rows", DTYPE_I32, 1, rows_dim);
    struct value *targets = input(graph, "targets", DTYPE_I32, 1, rows_dim);
    struct value *weight = input(graph, "weight", DTYPE_F32, 1, rows_dim);
    const struct node *node = build_loss_head(
        graph, hidden, table, rows, targets, weight,
        &(struct loss_head_options){.cap = 30.0, .with_gradient = true}, NULL, NULL);
    static const char *const names[] = {"loss", "token", "lse", "dh", "dt"};
    const int64_t sizes[] = {0, C, C, N * D, V * D};
    for (int i = 0; i < 5; i++) {
        graph_add_output(graph, names[i], node->outputs[i], NULL);
    }
    struct engine_run *run = create_run(graph, is_lowered);
    engine_run_fill(run, 4, 1.0);
    int32_t *row = engine_run_argument(run, "rows", 0);
    int32_t *target = engine_run_argument(run, "targets", 0);
    row[0] = -1;
    row[1] = N + 5;
    target[0] = -100;
    target[1] = V;
    memset(engine_run_argument(run, "weight", 0), 0, C * sizeof(float));
    engine_run_execute(run);
    assert_true(*(const double *)engine_run_output(run, "loss", 0) == 0.0);
    for (int i = 1; i < 5; i++) {
        const float *x = engine_run_output(run, names[i], 0);
        for (int64_t k = 0; k < sizes[i]; k++) {
            assert_true(x[k] == 0.0f);
        }
    }
    engine_run_destroy(run);
}

/* silu(x) is 0 far below and x far above, with slopes 0 and 1, and no overflow between. */
static void check_silu(bool is_lowered)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const int64_t dim[1] = {2};
    struct value *x = input(graph, "x", DTYPE_F32, 1, dim);
    struct value *y = build_silu(graph, x);
    struct value *seed = build_constant(graph, y->type, 1.0);
    struct value *dx;
    const struct grad_options options = {.keeps_partial = false};
    grad_build(graph, 1, &y, &seed, 1, &x, &options, &dx);
    graph_add_output(graph, "y", y, NULL);
    graph_add_output(graph, "dx", dx, NULL);
    struct engine_run *run = create_run(graph, is_lowered);
    float *values = engine_run_argument(run, "x", 0);
    values[0] = -1e4f;
    values[1] = 1e4f;
    engine_run_execute(run);
    const float *result = engine_run_output(run, "y", 0);
    const float *slope = engine_run_output(run, "dx", 0);
    assert_true(result[0] == 0.0f && result[1] == 1e4f);
    assert_true(slope[0] == 0.0f && slope[1] == 1.0f);
    engine_run_destroy(run);
}

/* Position 0 turns nothing; other positions keep the length of each pair; the elements
 * beyond `pairs` stay. */
static void check_rope(bool is_lowered)
{
    enum { T = 2, K = 8, PAIRS = 3 };
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const int64_t dim[4] = {1, T, 1, K};
    struct value *x = input(graph, "x", DTYPE_F32, 4, dim);
    struct value *position = input(graph, "position", DTYPE_I32, 2, dim);
    graph_add_output(graph, "y", build_rope(graph, x, position, 1e4, 1.0, PAIRS), NULL);
    struct engine_run *run = create_run(graph, is_lowered);
    engine_run_fill(run, 5, 1.0);
    int32_t *positions = engine_run_argument(run, "position", 0);
    positions[0] = 0;
    positions[1] = 7;
    engine_run_execute(run);
    const float *a = engine_run_argument(run, "x", 0);
    const float *b = engine_run_output(run, "y", 0);
    for (int k = 0; k < K; k++) {
        assert_true(a[k] == b[k]);
        const bool stays = k % (K / 2) >= PAIRS;
        assert_true((a[K + k] == b[K + k]) == stays);
    }
    for (int k = K; k < K + PAIRS; k++) {
        const float before = a[k] * a[k] + a[k + K / 2] * a[k + K / 2];
        const float after = b[k] * b[k] + b[k + K / 2] * b[k + K / 2];
        assert_true(fabsf(before - after) <= 1e-5f * before);
    }
    /* Pair 0 turns by the position itself. */
    assert_true(fabsf(b[K] - (a[K] * cosf(7.0f) - a[K + K / 2] * sinf(7.0f))) < 1e-5f);
    engine_run_destroy(run);
}

static void hidden_rows_are_zero(void **state)
{
    (void)state;
    check_hidden_rows(true);
    check_hidden_rows(false);
}

static void unweighted_rows_are_zero(void **state)
{
    (void)state;
    check_unweighted_rows(true);
    check_unweighted_rows(false);
}

static void silu_is_finite_far_out(void **state)
{
    (void)state;
    check_silu(true);
    check_silu(false);
}

static void rope_turns_pairs(void **state)
{
    (void)state;
    check_rope(true);
    check_rope(false);
}

static int count_repeats(const struct graph *graph)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        n += graph->nodes[i]->op == OP_REPEAT;
    }
    return n;
}

/* Attention and its gradient, one loop each; no [T, T] array in either. */
static void tiled_forms_loop(void **state)
{
    (void)state;
    enum { T = 1000 };
    struct graph *graph = attention_graph(T, 8);
    struct graph *whole = rewrite_lower(graph, NULL, false);
    struct graph *tiled = rewrite_lower(graph, NULL, true);
    assert_int_equal(count_repeats(whole), 0);
    assert_int_equal(count_repeats(tiled), 2);
    for (int i = 0; i < tiled->n_nodes; i++) {
        const struct node *node = tiled->nodes[i];
        for (int j = 0; node->op == OP_REPEAT && j < node->body->n_nodes; j++) {
            const struct value *value = node->body->nodes[j]->outputs[0];
            assert_true(type_elements(&value->type) < (int64_t)T * T / 2);
        }
    }
    graph_destroy(graph);
    graph_destroy(whole);
    graph_destroy(tiled);
}

static void counts_outputs(void **state)
{
    (void)state;
    struct attributes attributes = {.with_gradient = false};
    assert_int_equal(define_n_outputs(OP_LOSS_HEAD, 5, &attributes), 3);
    attributes.with_gradient = true;
    assert_int_equal(define_n_outputs(OP_LOSS_HEAD, 7, &attributes), 5);
    assert_int_equal(define_n_outputs(OP_RMS_NORM_GRAD, 2, &attributes), 1);
    assert_int_equal(define_n_outputs(OP_RMS_NORM_GRAD, 3, &attributes), 2);
    attributes.freezes_weight = true;
    assert_int_equal(define_n_outputs(OP_RMS_NORM_GRAD, 3, &attributes), 1);
    assert_int_equal(define_n_outputs(OP_RMS_NORM_GRAD, 2, &attributes), 1);
    assert_int_equal(define_n_outputs(OP_ATTENTION_GRAD, 7, &attributes), 3);
    assert_int_equal(define_n_outputs(OP_ADAMW, 7, &attributes), 3);
}

/* A norm over a split dimension would need a sum over ranks that it does not make. */
static void refuses_a_norm_over_a_split_dimension(void **state)
{
    (void)state;
    const struct mesh mesh = {.size = {1, 1, 2}};
    struct graph *graph = graph_create(&mesh);
    struct type type = type_make(DTYPE_F32, 2, (const int64_t[]){3, 4});
    type.placement = placement_split(MESH_TENSOR, 1);
    struct value *x = build_input(graph, "x", type);
    const struct attributes attributes = {.eps = 1e-6};
    struct error err;
    assert_null(
        graph_try_append(graph, OP_RMS_NORM, 1, &x, &attributes, NULL, NULL, &err));
    assert_non_null(strstr(err.message, "tensor axis"));
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_rows_are_zero),
        cmocka_unit_test(unweighted_rows_are_zero),
        cmocka_unit_test(silu_is_finite_far_out),
        cmocka_unit_test(rope_turns_pairs),
        cmocka_unit_test(tiled_forms_loop),
        cmocka_unit_test(counts_outputs),
        cmocka_unit_test(refuses_a_norm_over_a_split_dimension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
