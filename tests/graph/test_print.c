/*
 * The text form of graphs: one golden dump with every kind of attribute in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/build.h"
#include "graph/print.h"
#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {1, 2, 1}};

static struct value *input(struct graph *graph, const char *name, const char *type)
{
    return build_input(graph, name, rule_cases_type(type));
}

static const char golden[] =
    "%0 = parameter() {trainable} : f32[8,6]{shard: split 0}  # w\n"
    "%1 = input() : f32[3,6]  # x\n"
    "%2 = use_param(%0) : bf16[16,6]  # mlp.use_param\n"
    "%3 = cast(%1) : bf16[3,6]  # mlp.cast\n"
    "%4 = matmul(%3, %2) {transpose_b} : f32[3,16]  # mlp.matmul\n"
    "%5 = constant() {value -0.5} : f32[]  # mlp.constant\n"
    "%6 = compare(%4, %5) {lt} : bool[3,16]  # mlp.compare\n"
    "%7 = slice(%4) {0:3 2:6} : f32[3,4]  # mlp.slice\n"
    "%8 = pad(%7) {0:1 0:0} : f32[4,4]  # mlp.pad\n"
    "%9 = reduce_sum(%8) {axes 1} : f32[4]  # mlp.reduce_sum\n"
    "%10 = rms_norm(%9) {eps 1e-06, adds_one, block 3} : f32[4]  # rms_norm\n"
    "%11 = take_split(%10) {shard, block 3} : f32[2]{shard: split 0}  # take_split\n"
    "%12 = repeat(%11) {iterations 2, carries 1, backward, block 3} : "
    "f32[2]{shard: split 0}  # layers\n"
    "    %0 = input() : i32[]  # i\n"
    "    %1 = input() : f32[2]{shard: split 0}  # carry\n"
    "    %2 = exp(%1) : f32[2]{shard: split 0}  # exp\n"
    "    output carry = %2\n"
    "output y = %12\n"
    "output w = %0 in %0\n";

static struct graph *example(void)
{
    struct graph *graph = graph_create(&mesh);
    struct value *w =
        build_parameter(graph, "w", rule_cases_type("f32[8,6]{shard: split 0}"), true);
    struct value *x = input(graph, "x", "f32[3,6]");
    const char *outer = graph_push_scope(graph, "mlp");
    struct value *used = build_use_param(graph, w, DTYPE_BF16);
    struct value *narrow = build_cast(graph, x, DTYPE_BF16);
    struct value *y = build_matmul(graph, narrow, used, false, true, DTYPE_F32);
    build_compare(graph, COMPARE_LT, y, build_scalar(graph, DTYPE_F32, -0.5));
    y = build_slice_axis(graph, y, 1, 2, 6);
    y = build_pad(graph, y, (const int64_t[]){0, 0}, (const int64_t[]){1, 0});
    y = build_reduce_sum(graph, y, 1, (const int[]){1});
    graph_pop_scope(graph, outer);
    graph->block = 3;
    y = build_rms_norm(graph, y, NULL, 1e-6, true);
    y = build_take_split(graph, y, MESH_SHARD, 0);

    struct graph *body = graph_create(&mesh);
    input(body, "i", "i32[]");
    struct value *carry = input(body, "carry", "f32[2]{shard: split 0}");
    graph_add_output(body, "carry", build_exp(body, carry), NULL);
    graph->is_backward = true;
    const struct node *repeat =
        build_repeat(graph, 2, body, &y, 1, NULL, 0, NULL, 0, "layers");
    graph_add_output(graph, "y", repeat->outputs[0], NULL);
    graph_add_output(graph, "w", w, w);
    return graph;
}

static void prints_as_recorded(void **state)
{
    (void)state;
    struct graph *graph = example();
    struct str text = {0};
    print_graph(graph, &text);
    assert_string_equal(str_text(&text), golden);
    str_deinit(&text);
    graph_destroy(graph);
}

/* Numbers are places in the text: ids that passes left out do not show. */
static void numbers_do_not_depend_on_ids(void **state)
{
    (void)state;
    struct graph *graph = example();
    for (int i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i]->id += 100;
    }
    struct value *first = graph->nodes[0]->outputs[0];
    struct value *second = graph->nodes[1]->outputs[0];
    const int id = first->id;
    first->id = second->id;
    second->id = id;
    struct str text = {0};
    print_graph(graph, &text);
    assert_string_equal(str_text(&text), golden);
    str_deinit(&text);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_as_recorded),
        cmocka_unit_test(numbers_do_not_depend_on_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
