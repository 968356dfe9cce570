/*
 * Bodies of repeats against operands: each way in which they may not fit is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "graph/build.h"
#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {1, 2, 1}};

/* What a case changes in a repeat that fits; NULL and 0 change nothing. */
struct change {
    const char *iteration, *carry, *slice,
        *invariant;        /* types of the body's arguments */
    const char *new_carry; /* type of its first output */
    const char *stacked;   /* type of the operand */
    int n_iterations;
    bool is_on_other_mesh;
    const char *expected; /* part of the message; NULL: accepted */
};

/* The type as changed, or the one that fits. */
static struct type pick(const char *changed, const char *fits)
{
    return rule_cases_type(changed == NULL ? fits : changed);
}

static struct node *append_repeat(struct graph *graph, const struct change *change,
                                  struct error *err)
{
    const struct mesh other = {.size = {1, 1, 2}};
    struct graph *body = graph_create(change->is_on_other_mesh ? &other : &mesh);
    build_input(body, "iteration", pick(change->iteration, "i32[]"));
    build_input(body, "carry", pick(change->carry, "f32[4]{shard: split 0}"));
    struct value *slice = build_input(body, "slice", pick(change->slice, "f32[4]"));
    build_input(body, "invariant", pick(change->invariant, "f32[]"));
    graph_add_output(
        body, "carry",
        build_constant(body, pick(change->new_carry, "f32[4]{shard: split 0}"), 0.0),
        NULL);
    graph_add_output(body, "result", build_exp(body, slice), NULL);

    struct value *const inputs[] = {
        build_input(graph, "x", rule_cases_type("f32[4]{shard: split 0}")),
        build_input(graph, "stack", pick(change->stacked, "f32[3,4]")),
        build_input(graph, "s", rule_cases_type("f32[]")),
    };
    const struct attributes attributes = {
        .n_iterations = change->n_iterations == 0 ? 3 : change->n_iterations,
        .n_carries = 1,
        .n_stacked = 1};
    return graph_try_append(graph, OP_REPEAT, 3, inputs, &attributes, body, "layers",
                            err);
}

static void bodies_must_fit_operands(void **state)
{
    (void)state;
    static const struct change changes[] = {
        {.expected = NULL},
        {.iteration = "i64[]", .expected = "argument 0 of the body (iteration)"},
        {.carry = "f32[4]", .expected = "argument 1 of the body (carry) is f32[4]"},
        {.slice = "f32[3]", .expected = "argument 2 of the body (slice) is f32[3]"},
        {.invariant = "f64[]", .expected = "argument 3 of the body (invariant)"},
        {.new_carry = "f32[4]", .expected = "carry 0 becomes f32[4], but should"},
        {.stacked = "f32[2,4]", .expected = "a stacked operand must be [3, ...]"},
        {.stacked = "f32[3,4]{shard: split 0}",
         .expected = "the stacked dimension 0 must not be split"},
        {.stacked = "f32[3,4]{shard: split 1}",
         .expected = "should be an input f32[4]{shard: split 0}"},
        {.stacked = "f32[3,4]{shard: split 1}", .slice = "f32[4]{shard: split 0}"},
        {.is_on_other_mesh = true, .expected = "the body is made for another mesh"},
        {.n_iterations = -1, .expected = "at least 1 iteration"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
        struct graph *graph = graph_create(&mesh);
        struct error error = {0};
        const struct node *node = append_repeat(graph, &changes[i], &error);
        if (changes[i].expected == NULL) {
            assert_non_null(node);
        } else {
            assert_null(node);
            if (strstr(error.message, changes[i].expected) == NULL) {
                fail_msg("wanted \"%s\", got \"%s\"", changes[i].expected,
                         error.message);
            }
        }
        graph_destroy(graph);
    }
}

static void results_are_stacked(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct error error = {0};
    const struct change change = {.stacked = "f32[3,4]{shard: split 1}",
                                  .slice = "f32[4]{shard: split 0}"};
    const struct node *node = append_repeat(graph, &change, &error);
    assert_non_null(node);
    char type[192];
    assert_int_equal(node->n_outputs, 2);
    assert_string_equal(type_format(type, &node->outputs[0]->type),
                        "f32[4]{shard: split 0}");
    assert_string_equal(type_format(type, &node->outputs[1]->type),
                        "f32[3,4]{shard: split 1}");
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_must_fit_operands),
        cmocka_unit_test(results_are_stacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
