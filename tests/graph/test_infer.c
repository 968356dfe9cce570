/*
 * Composites get their types, and their errors, from their definitions. (D14, C39: the
 * parts of a tensor-parallel layer fit together for one key-value head too.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "graph/build.h"
#include "graph/infer.h"
#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {2, 2, 4}};

static void composites_have_the_types_of_their_definition(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_USE_PARAM, "f32[3,8]{shard: split 0, tensor: split 0}",
         "bf16[6,8]{tensor: split 0}",
         .attributes = {.dtype = DTYPE_BF16, .mesh_axis = MESH_SHARD}},
        {OP_USE_PARAM, "f32[3,8]{tensor: split 1}", "f32[3,8]{tensor: split 1}",
         .attributes = {.dtype = DTYPE_F32, .mesh_axis = MESH_SHARD}},
        {OP_RMS_NORM, "bf16[2,3,8]{shard: split 0}; bf16[8]",
         "bf16[2,3,8]{shard: split 0}", .attributes = {.eps = 1e-6}},
        {OP_ROPE,
         "f32[2,3,4,8]{shard: split 0, tensor: split 2}; "
         "i32[2,3]{shard: split 0}",
         "f32[2,3,4,8]{shard: split 0, tensor: split 2}",
         .attributes = {.theta = 1e4, .factor = 1, .pairs = 4}},
        CASE(OP_GELU_TANH, "bf16[4]{shard: split 0}", "bf16[4]{shard: split 0}"),
        CASE(OP_GEGLU, "f32[4]; f32[4]", "f32[4]"),
        CASE(OP_GEGLU_GRAD, "f32[4]; f32[4]; f32[4]", "f32[4]; f32[4]"),
        {OP_EMBED, "f32[9,4]; i32[2,3]{shard: split 0}", "f32[2,3,4]{shard: split 0}",
         .attributes = {.value = 2, .ignore_row = -1}},
        CASE(OP_SUM_SQUARES, "f32[4,3]{shard: split 0, tensor: split 1}",
             "f64[]{shard: partial, tensor: partial}"),
        CASE(OP_ACCUMULATE, "f32[4]{shard: partial}; bool[]; f32[4]{shard: partial}",
             "f32[4]{shard: partial}"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

/* Query heads split over tensor; key-value heads split alike, or one that is the same. */
static void attention_takes_heads_split_or_shared(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_ATTENTION,
         "f32[2,3,2,8]{tensor: split 2}; f32[2,3,1,8]{tensor: split 2}; "
         "f32[2,3,1,8]{tensor: split 2}; i32[2,3]",
         "f32[2,3,2,8]{tensor: split 2}; f32[2,2,3]{tensor: split 1}",
         .attributes = {.value = 1}},
        {OP_ATTENTION,
         "bf16[2,3,2,8]{shard: split 0, tensor: split 2}; "
         "bf16[2,3,1,8]{shard: split 0}; bf16[2,3,1,8]{shard: split 0}; "
         "i32[2,3]{shard: split 0}",
         "bf16[2,3,2,8]{shard: split 0, tensor: split 2}; "
         "f32[2,2,3]{shard: split 0, tensor: split 1}",
         .attributes = {.value = 1, .window = 2}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void errors_in_definitions_are_reported(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        CASE(OP_GELU_TANH, "f32[4]{shard: partial}", "!in its definition, "),
        CASE(OP_GEGLU, "f32[4]; f32[5]", "!in its definition, mul("),
        CASE(OP_ACCUMULATE, "f32[4]; bool[]; f32[4]{shard: partial}",
             "!in its definition, "),
        CASE(OP_GEGLU, "f32[4]", "!takes 2 to 2 operands, got 1"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void a_body_belongs_to_repeat(void **state)
{
    (void)state;
    struct error error;
    struct graph *body = graph_create(&mesh);
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_scalar(graph, DTYPE_F32, 1.0);
    const struct attributes none = {0};
    assert_null(graph_try_append(graph, OP_EXP, 1, &x, &none, body, NULL, &error));
    assert_string_equal(error.message, "exp(f32[]): a body belongs to repeat alone");
    assert_null(graph_try_append(graph, OP_REPEAT, 1, &x, &none, NULL, NULL, &error));
    assert_string_equal(error.message, "repeat(f32[]): a body belongs to repeat alone");
    assert_int_equal(graph->n_nodes, 1);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites_have_the_types_of_their_definition),
        cmocka_unit_test(attention_takes_heads_split_or_shared),
        cmocka_unit_test(errors_in_definitions_are_reported),
        cmocka_unit_test(a_body_belongs_to_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
