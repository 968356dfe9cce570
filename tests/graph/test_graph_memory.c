/*
 * Which results overwrite an operand, may take its place, or are the operand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/build.h"
#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {1, 1, 1}};

static struct value *input(struct graph *graph, const char *type)
{
    return build_input(graph, type, rule_cases_type(type));
}

static void accumulators_and_state_are_overwritten(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *a = input(graph, "f32[4,4]");
    struct value *keep = input(graph, "bool[]");
    struct value *ids = input(graph, "i32[4]");
    struct value *start = input(graph, "i32[]");
    const struct value *plain = build_matmul(graph, a, a, false, false, DTYPE_F32);
    const struct value *into = build_matmul_into(graph, a, a, false, false, a, keep);
    const struct value *rows = build_scatter_add_rows(graph, a, ids, a, NULL, -1);
    const struct value *part = build_dynamic_update_slice(graph, a, a, start, 0);
    const struct value *sum = build_accumulate(graph, a, keep, a);
    assert_int_equal(graph_node_alias(plain->node, 0), -1);
    assert_int_equal(graph_node_alias(into->node, 0), 2);
    assert_int_equal(graph_node_alias(rows->node, 0), 0);
    assert_int_equal(graph_node_alias(part->node, 0), 0);
    assert_int_equal(graph_node_alias(sum->node, 0), 0);
    graph_destroy(graph);
}

static void the_loss_head_and_adamw_update_in_place(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *hidden = input(graph, "f32[6,4]");
    struct value *table = input(graph, "f32[9,4]");
    struct value *rows = input(graph, "i32[3]");
    struct value *weight = input(graph, "f32[3]");
    struct value *keep = input(graph, "bool[]");
    const struct node *plain =
        build_loss_head(graph, hidden, table, rows, rows, weight,
                        &(struct loss_head_options){.with_gradient = true}, NULL, NULL);
    const struct node *into = build_loss_head(
        graph, hidden, table, rows, rows, weight,
        &(struct loss_head_options){.with_gradient = true}, table, keep);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(graph_node_alias(plain, i), -1);
        assert_int_equal(graph_node_alias(into, i), i == 4 ? 5 : -1);
    }
    struct value *hyper = input(graph, "f32[7]");
    struct value *scale = input(graph, "f32[]");
    const struct node *adamw =
        build_adamw(graph, table, table, table, table, hyper, scale, keep);
    assert_int_equal(graph_node_alias(adamw, 0), 0); /* p */
    assert_int_equal(graph_node_alias(adamw, 1), 2); /* m */
    assert_int_equal(graph_node_alias(adamw, 2), 3); /* v */
    graph_destroy(graph);
}

static void elementwise_results_may_take_an_operands_place(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "f32[4]");
    struct value *s = input(graph, "f32[]");
    struct value *matrix = input(graph, "f32[4,4]");
    const struct node *product = build_mul(graph, x, s)->node;
    assert_true(graph_node_may_reuse(product, 0));
    assert_false(graph_node_may_reuse(product, 1)); /* a scalar is too small */
    assert_false(graph_node_may_reuse(build_cast(graph, x, DTYPE_BF16)->node, 0));
    assert_true(graph_node_may_reuse(build_cast(graph, x, DTYPE_I32)->node, 0));
    const struct node *compare = build_compare(graph, COMPARE_LT, x, x)->node;
    assert_false(graph_node_may_reuse(compare, 0));
    const struct node *geglu = build_geglu(graph, x, x)->node;
    assert_true(graph_node_may_reuse(geglu, 0));
    assert_true(graph_node_may_reuse(geglu, 1));
    const int turned[] = {1, 0};
    assert_false(graph_node_may_reuse(build_transpose(graph, matrix, turned)->node, 0));
    graph_destroy(graph);
}

static void views_read_their_operands_memory(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "bf16[4,6,5]");
    size_t offset = 1;
    assert_true(graph_node_is_view(
        build_reshape(graph, x, type_shape(1, (int64_t[]){120}))->node, &offset));
    assert_int_equal(offset, 0);
    assert_true(graph_node_is_view(build_barrier(graph, x)->node, &offset));
    assert_true(graph_node_is_view(build_stop_gradient(graph, x)->node, &offset));
    assert_true(
        graph_node_is_view(build_fan_out(graph, x, MESH_TENSOR)->node, &offset));
    assert_true(graph_node_is_view(build_bitcast(graph, x, DTYPE_F16)->node, &offset));
    assert_false(graph_node_is_view(build_exp(graph, x)->node, &offset));
    assert_false(graph_node_is_view(build_cast(graph, x, DTYPE_BF16)->node, &offset));
    graph_destroy(graph);
}

/* Slices of [4, 6, 5]: those that are one run, and where it starts. */
static void slices_that_are_one_run_are_views(void **state)
{
    (void)state;
    static const struct {
        int64_t start[3], limit[3];
        int64_t offset; /* elements; -1: no view */
    } cases[] = {
        {{0, 0, 0}, {4, 6, 5}, 0},   {{1, 0, 0}, {3, 6, 5}, 30},
        {{2, 1, 0}, {3, 4, 5}, 65},  {{2, 1, 3}, {3, 2, 5}, 68},
        {{3, 5, 4}, {4, 6, 5}, 119}, {{1, 1, 0}, {3, 4, 5}, -1},
        {{0, 0, 1}, {4, 6, 5}, -1},  {{2, 1, 0}, {3, 4, 4}, -1},
        {{0, 2, 0}, {4, 3, 5}, -1},
    };
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "bf16[4,6,5]");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        size_t offset = 0;
        const struct node *slice =
            build_slice(graph, x, cases[i].start, cases[i].limit)->node;
        assert_int_equal(graph_node_is_view(slice, &offset), cases[i].offset >= 0);
        if (cases[i].offset >= 0) {
            assert_int_equal(offset, cases[i].offset * 2);
        }
    }
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulators_and_state_are_overwritten),
        cmocka_unit_test(the_loss_head_and_adamw_update_in_place),
        cmocka_unit_test(elementwise_results_may_take_an_operands_place),
        cmocka_unit_test(views_read_their_operands_memory),
        cmocka_unit_test(slices_that_are_one_run_are_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
