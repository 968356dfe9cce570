/*
 * Builders put operands and attributes where the ops read them; those that make several
 * nodes make the right ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/build.h"
#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {1, 2, 4}};

static struct value *input(struct graph *graph, const char *type)
{
    return build_input(graph, type, rule_cases_type(type));
}

static void check_type(const struct value *value, const char *expected)
{
    char type[192];
    assert_string_equal(type_format(type, &value->type), expected);
}

static void sources_keep_their_attributes(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    const struct value *iota = build_iota(graph, rule_cases_type("i32[2,3]"), 1);
    assert_int_equal(iota->node->attributes.axis, 1);
    check_type(iota, "i32[2,3]");
    struct value *seed = input(graph, "u32[]");
    const struct value *bits =
        build_random_bits(graph, seed, seed, 9, rule_cases_type("u32[5]"));
    assert_int_equal(bits->node->attributes.purpose, 9);
    const struct value *index = build_axis_index(graph, MESH_TENSOR);
    assert_int_equal(index->node->attributes.mesh_axis, MESH_TENSOR);
    const struct value *half = build_scalar(graph, DTYPE_BF16, 0.5);
    assert_true(half->node->attributes.value == 0.5);
    check_type(half, "bf16[]");
    graph_destroy(graph);
}

static void scale_and_shift_use_a_scalar_of_the_operands_dtype(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "bf16[3]{shard: split 0}");
    const struct value *y = build_scale(graph, x, 3.0);
    assert_int_equal(y->node->op, OP_MUL);
    assert_ptr_equal(y->node->inputs[0], x);
    assert_true(y->node->inputs[1]->node->attributes.value == 3.0);
    check_type(y, "bf16[3]{shard: split 0}");
    const struct value *z = build_shift(graph, x, -1.0);
    assert_int_equal(z->node->op, OP_ADD);
    assert_true(z->node->inputs[1]->node->attributes.value == -1.0);
    graph_destroy(graph);
}

static void optional_operands_may_be_left_out(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *a = input(graph, "f32[4,4]");
    struct value *keep = input(graph, "bool[]");
    struct value *ids = input(graph, "i32[4]");
    struct value *weight = input(graph, "f32[4]");
    assert_int_equal(
        build_matmul_into(graph, a, a, false, false, a, NULL)->node->n_inputs, 3);
    assert_int_equal(
        build_matmul_into(graph, a, a, false, false, a, keep)->node->n_inputs, 4);
    assert_int_equal(build_scatter_add_rows(graph, a, ids, a, NULL, -1)->node->n_inputs,
                     3);
    assert_int_equal(build_scatter_add_rows(graph, a, ids, a, keep, -1)->node->n_inputs,
                     4);
    assert_int_equal(build_rms_norm(graph, a, NULL, 1e-6, false)->node->n_inputs, 1);
    assert_int_equal(build_rms_norm(graph, a, weight, 1e-6, false)->node->n_inputs, 2);
    const struct node *plain =
        build_loss_head(graph, a, a, ids, ids, weight,
                        &(struct loss_head_options){.cap = 30.0}, NULL, NULL);
    assert_int_equal(plain->n_inputs, 5);
    assert_int_equal(plain->n_outputs, 3);
    const struct node *whole = build_loss_head(
        graph, a, a, ids, ids, weight,
        &(struct loss_head_options){.cap = 30.0, .with_gradient = true}, a, keep);
    assert_int_equal(whole->n_inputs, 7);
    assert_int_equal(whole->n_outputs, 5);
    assert_true(whole->attributes.value == 30.0);
    graph_destroy(graph);
}

static void moves_fill_in_what_follows_from_the_operand(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "f32[2,6]{shard: split 0, tensor: partial}");
    check_type(build_slice_axis(graph, x, 1, 2, 5),
               "f32[2,3]{shard: split 0, tensor: partial}");
    check_type(build_broadcast_like_x(graph, x, type_shape(3, (int64_t[]){5, 2, 6}),
                                      (const int[]){1, 2}),
               "f32[5,2,6]{shard: split 1, tensor: partial}");
    struct value *const parts[] = {x, x, x};
    check_type(build_concat(graph, parts, 3, 1),
               "f32[2,18]{shard: split 0, tensor: partial}");
    graph_destroy(graph);
}

/* Column- and row-parallel layers on rows that are split, at lengths down to 1. */
static void linear_keeps_leading_dimensions_and_places(void **state)
{
    (void)state;
    static const struct {
        const char *x, *weight, *expected;
    } cases[] = {
        {"f32[5,6]", "f32[3,6]", "f32[5,3]"},
        {"f32[6]", "f32[3,6]", "f32[3]"},
        {"bf16[2,5,6]", "bf16[3,6]", "bf16[2,5,3]"},
        {"f32[2,5,6]{shard: split 0}", "f32[3,6]{tensor: split 0}",
         "f32[2,5,3]{shard: split 0, tensor: split 2}"},
        {"f32[2,5,6]{shard: split 0, tensor: split 2}", "f32[3,6]{tensor: split 1}",
         "f32[2,5,3]{shard: split 0, tensor: partial}"},
        {"f32[1,1,6]{shard: split 0, tensor: split 2}", "f32[3,6]{tensor: split 1}",
         "f32[1,1,3]{shard: split 0, tensor: partial}"},
        {"f32[1,1,1]{shard: split 0}", "f32[1,1]{tensor: split 0}",
         "f32[1,1,1]{shard: split 0, tensor: split 2}"},
        {"f32[2,3,4,6]{tensor: partial}", "f32[3,6]", "f32[2,3,4,3]{tensor: partial}"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct graph *graph = graph_create(&mesh);
        struct value *x = input(graph, cases[i].x);
        struct value *weight = input(graph, cases[i].weight);
        check_type(build_linear(graph, x, weight), cases[i].expected);
        graph_destroy(graph);
    }
}

static void composites_keep_operands_and_settings_apart(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *q = input(graph, "f32[2,3,4,8]");
    struct value *k = input(graph, "f32[2,3,2,8]");
    struct value *v = build_exp(graph, k);
    struct value *ids = input(graph, "i32[2,3]");
    struct value *lse = NULL;
    const struct node *attention =
        build_attention(graph, q, k, v, ids, 0.25, 512, &lse)->node;
    assert_ptr_equal(attention->inputs[0], q);
    assert_ptr_equal(attention->inputs[1], k);
    assert_ptr_equal(attention->inputs[2], v);
    assert_ptr_equal(attention->inputs[3], ids);
    assert_true(attention->attributes.value == 0.25);
    assert_int_equal(attention->attributes.window, 512);
    assert_ptr_equal(lse, attention->outputs[1]);

    const struct node *rope = build_rope(graph, q, ids, 1e4, 8.0, 3)->node;
    assert_true(rope->attributes.theta == 1e4);
    assert_true(rope->attributes.factor == 8.0);
    assert_int_equal(rope->attributes.pairs, 3);

    struct value *table = input(graph, "f32[9,4]");
    const struct node *embed = build_embed(graph, table, ids, 2.0, 7)->node;
    assert_ptr_equal(embed->inputs[0], table);
    assert_true(embed->attributes.value == 2.0);
    assert_int_equal(embed->attributes.ignore_row, 7);
    assert_true(build_softcap(graph, q, 50.0)->node->attributes.value == 50.0);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_keep_their_attributes),
        cmocka_unit_test(scale_and_shift_use_a_scalar_of_the_operands_dtype),
        cmocka_unit_test(optional_operands_may_be_left_out),
        cmocka_unit_test(moves_fill_in_what_follows_from_the_operand),
        cmocka_unit_test(linear_keeps_leading_dimensions_and_places),
        cmocka_unit_test(composites_keep_operands_and_settings_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
