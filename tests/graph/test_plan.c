/*
 * The plan, checked by a shadow memory: every node writes its name where its result is
 * said to live and must find the names of its operands where they are said to live.
 * Overlaps of live values, unlawful in-place results, lost versions and overwritten
 * arguments all show as a wrong name. (D3)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "graph/plan.h"
#include "graph/rewrite.h"
#include "graph/verify.h"
#include "support/random_graph.h"

enum { REGION_BYTES = 4096, SCRATCH_NAME = -2 };

/* Memory of one kind and number, one name per byte. */
struct region {
    enum plan_kind kind;
    int index;
    int *names;
    size_t bytes;
};

struct shadow {
    const struct graph *graph;
    const struct plan *plan;
    struct region regions[64];
    int n_regions;
    int *names; /* by value id: what its memory must hold; views share a name */
};

static int *find_memory(struct shadow *shadow, const struct plan_slot *slot,
                        size_t bytes)
{
    for (int i = 0; i < shadow->n_regions; i++) {
        struct region *region = &shadow->regions[i];
        if (region->kind == slot->kind && region->index == slot->index) {
            assert_true(slot->offset + bytes <= region->bytes);
            return region->names + slot->offset;
        }
    }
    fail_msg("no region of kind %d, index %d", (int)slot->kind, slot->index);
    return NULL;
}

static void add_region(struct shadow *shadow, enum plan_kind kind, int index,
                       size_t bytes)
{
    assert_true(shadow->n_regions < 64);
    struct region *region = &shadow->regions[shadow->n_regions++];
    *region = (struct region){.kind = kind, .index = index, .bytes = bytes};
    region->names = mem_alloc_array(bytes, sizeof(int));
    for (size_t i = 0; i < bytes; i++) {
        region->names[i] = -1;
    }
}

static void write_name(struct shadow *shadow, const struct value *value)
{
    const size_t bytes = type_bytes(&value->type);
    int *memory = find_memory(shadow, &shadow->plan->slots[value->id], bytes);
    for (size_t i = 0; i < bytes; i++) {
        memory[i] = shadow->names[value->id];
    }
}

static void read_name(struct shadow *shadow, const struct value *value)
{
    const size_t bytes = type_bytes(&value->type);
    const int *memory = find_memory(shadow, &shadow->plan->slots[value->id], bytes);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(memory[i], shadow->names[value->id]);
    }
}

static bool overlaps(const struct plan_slot *a, size_t a_bytes,
                     const struct plan_slot *b, size_t b_bytes)
{
    return a->kind == b->kind && a->index == b->index &&
           a->offset < b->offset + b_bytes && b->offset < a->offset + a_bytes;
}

/* Results may overlap operands only as aliases or, exactly, where reuse is allowed. */
static void check_in_place(const struct shadow *shadow, const struct node *node)
{
    for (int k = 0; k < node->n_outputs; k++) {
        const struct value *result = node->outputs[k];
        const struct plan_slot *to = &shadow->plan->slots[result->id];
        for (int i = 0; i < node->n_inputs; i++) {
            const struct value *operand = node->inputs[i];
            const struct plan_slot *from = &shadow->plan->slots[operand->id];
            const bool shares = overlaps(to, type_bytes(&result->type), from,
                                         type_bytes(&operand->type));
            if (graph_node_alias(node, k) == i) {
                assert_true(shares && to->offset == from->offset);
            } else if (shares) {
                assert_true(k == 0 && graph_node_may_reuse(node, i));
                assert_int_equal(to->offset, from->offset);
            }
        }
    }
}

static void run_node(struct shadow *shadow, const struct node *node, int position,
                     size_t scratch_bytes)
{
    for (int i = 0; i < node->n_inputs; i++) {
        read_name(shadow, node->inputs[i]);
    }
    size_t offset;
    if (graph_node_is_view(node, &offset)) {
        /* the operand's memory, at the offset: names carry over */
        shadow->names[node->outputs[0]->id] = shadow->names[node->inputs[0]->id];
        read_name(shadow, node->outputs[0]);
        return;
    }
    check_in_place(shadow, node);
    for (int k = 0; k < node->n_outputs; k++) {
        shadow->names[node->outputs[k]->id] = node->outputs[k]->id;
    }
    if (scratch_bytes > 0) {
        const struct plan_slot slot = {
            .kind = PLAN_ARENA, .offset = shadow->plan->scratch_offsets[position]};
        int *memory = find_memory(shadow, &slot, scratch_bytes);
        for (size_t i = 0; i < scratch_bytes; i++) {
            memory[i] = SCRATCH_NAME;
        }
        for (int i = 0; i < node->n_inputs; i++) { /* scratch has hit no operand */
            read_name(shadow, node->inputs[i]);
        }
    }
    for (int k = 0; k < node->n_outputs; k++) {
        write_name(shadow, node->outputs[k]);
    }
    for (int k = 0; k < node->n_outputs; k++) { /* nor have results hit each other */
        read_name(shadow, node->outputs[k]);
    }
}

/* Outputs hold what they should; arguments that nobody was given are as they were. */
static void check_end(struct shadow *shadow)
{
    const struct graph *graph = shadow->graph;
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        const struct plan_slot *slot = &shadow->plan->slots[output->value->id];
        assert_int_equal(slot->offset, 0);
        if (output->donor != NULL) {
            assert_int_equal(slot->kind, PLAN_ARGUMENT);
            assert_ptr_equal(graph->arguments[slot->index], output->donor);
        } else {
            assert_int_equal(slot->kind, PLAN_OUTPUT);
            assert_int_equal(slot->index, i);
        }
        read_name(shadow, output->value);
    }
    for (int a = 0; a < graph->n_arguments; a++) {
        bool is_given = false;
        for (int i = 0; i < graph->n_outputs; i++) {
            is_given = is_given || graph->outputs[i].donor == graph->arguments[a];
        }
        if (!is_given) {
            read_name(shadow, graph->arguments[a]);
        }
    }
}

static size_t some_scratch(const struct node *node, void *context)
{
    (void)context;
    return node->op == OP_MATMUL ? 100 : 0;
}

/* Orders, plans and walks the graph; returns the plan's size. */
static size_t check_graph(const struct graph *graph)
{
    struct error err;
    struct graph *ordered = rewrite_order(graph);
    if (!verify_graph(ordered, true, &err)) {
        fail_msg("%s", err.message);
    }
    struct plan *plan = plan_create(ordered, some_scratch, NULL);
    assert_true(plan->arena_bytes >= plan_live_peak(ordered, some_scratch, NULL));
    struct shadow shadow = {.graph = ordered, .plan = plan};
    shadow.names = mem_alloc_array((size_t)ordered->n_values, sizeof(int));
    add_region(&shadow, PLAN_ARENA, 0, plan->arena_bytes);
    for (int i = 0; i < ordered->n_arguments; i++) {
        const struct value *value = ordered->arguments[i];
        add_region(&shadow, PLAN_ARGUMENT, i, type_bytes(&value->type));
        shadow.names[value->id] = value->id;
        write_name(&shadow, value);
    }
    for (int i = 0; i < ordered->n_outputs; i++) {
        add_region(&shadow, PLAN_OUTPUT, i,
                   type_bytes(&ordered->outputs[i].value->type));
    }
    for (int i = 0; i < ordered->n_nodes; i++) {
        const struct node *node = ordered->nodes[i];
        if (node->op != OP_INPUT && node->op != OP_PARAMETER) {
            run_node(&shadow, node, i, some_scratch(node, NULL));
        }
    }
    check_end(&shadow);
    for (int i = 0; i < shadow.n_regions; i++) {
        mem_free(shadow.regions[i].names);
    }
    mem_free(shadow.names);
    const size_t bytes = plan->arena_bytes;
    plan_destroy(plan);
    graph_destroy(ordered);
    return bytes;
}

static void no_two_live_values_overlap(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 600; seed++) {
        const struct random_graph_options options = {
            .n_nodes = 3 + (int)(seed % 40),
            .has_overwrite = seed % 3 != 0,
        };
        struct graph *graph = random_graph_create(seed, &options);
        check_graph(graph);
        graph_destroy(graph);
    }
}

static void chains_run_in_place(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){8, 32}));
    struct value *y = build_tanh(graph, x);
    for (int i = 0; i < 5; i++) {
        y = build_sin(graph, build_add(graph, y, x));
    }
    struct value *sum = build_reduce_sum(graph, y, 1, (int[]){1});
    graph_add_output(graph, "sum", sum, NULL);
    struct graph *ordered = rewrite_order(graph);
    struct plan *plan = plan_create(ordered, NULL, NULL);
    assert_int_equal(plan->arena_bytes, 8 * 32 * 4);
    plan_destroy(plan);
    graph_destroy(ordered);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_live_values_overlap),
        cmocka_unit_test(chains_run_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
