/*
 * The plan, checked by a shadow memory: every node writes its name where its result is
 * said to live and must find the names of its operands where they are said to live.
 * Overlaps of live values, unlawful in-place results, lost versions and overwritten
 * arguments all show as a wrong name.
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

/* ---- the smallest arena, by trying everything ---- */

enum { MAX_BUFFERS = 8 };

/* What the graph leaves no choice about: buffers as lifetimes, from liveness alone. */
struct brute {
    const struct graph *graph;
    int buffer_of[256]; /* by value id, -1: the caller's memory */
    int start[MAX_BUFFERS], end[MAX_BUFFERS];
    size_t bytes[MAX_BUFFERS], offset[MAX_BUFFERS];
    bool is_gone[MAX_BUFFERS], is_placed[MAX_BUFFERS];
    int n;
    size_t best;
};

/* The value whose memory this one is: operands of views and of overwriting nodes. */
static const struct value *root_of(const struct value *value)
{
    for (;;) {
        size_t offset;
        const int alias = graph_node_alias(value->node, value->index);
        if (alias >= 0) {
            value = value->node->inputs[alias];
        } else if (graph_node_is_view(value->node, &offset)) {
            value = value->node->inputs[0];
        } else {
            return value;
        }
    }
}

static bool is_callers(const struct graph *graph, const struct value *root)
{
    if (root->node->op == OP_INPUT) {
        return true;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        if (root_of(graph->outputs[i].value) == root) {
            return true;
        }
    }
    return false;
}

/* False if there are too many buffers to try everything. */
static bool find_buffers(struct brute *brute)
{
    const struct graph *graph = brute->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_inputs; k++) {
            const int buffer = brute->buffer_of[root_of(node->inputs[k])->id];
            if (buffer >= 0) {
                brute->end[buffer] = i;
            }
        }
        const struct value *value = node->outputs[0];
        brute->buffer_of[value->id] = -1;
        if (root_of(value) != value || is_callers(graph, value)) {
            continue;
        }
        if (brute->n == MAX_BUFFERS) {
            return false;
        }
        brute->buffer_of[value->id] = brute->n;
        brute->bytes[brute->n] = (type_bytes(&value->type) + 63) / 64 * 64;
        brute->start[brute->n] = brute->end[brute->n] = i;
        brute->n++;
    }
    return true;
}

static bool rests_at(const struct brute *b, int item, size_t offset)
{
    for (int j = 0; j < b->n; j++) {
        if (b->is_placed[j] && b->start[j] <= b->end[item] &&
            b->start[item] <= b->end[j] && offset < b->offset[j] + b->bytes[j] &&
            b->offset[j] < offset + b->bytes[item]) {
            return false;
        }
    }
    return true;
}

/* What is alive at the worst moment: nothing smaller is possible. */
static size_t alive_at_most(const struct brute *b)
{
    size_t most = 0;
    for (int t = 0; t < b->graph->n_nodes; t++) {
        size_t sum = 0;
        for (int i = 0; i < b->n; i++) {
            sum +=
                !b->is_gone[i] && b->start[i] <= t && t <= b->end[i] ? b->bytes[i] : 0;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Places what is left, each on the floor or on something placed. */
static void place_rest(struct brute *b, int n_left, size_t size, size_t bound)
{
    if (size >= b->best || bound >= b->best) {
        return;
    }
    if (n_left == 0) {
        b->best = size;
        return;
    }
    for (int i = 0; i < b->n; i++) {
        for (int on = -1; on < b->n && !b->is_placed[i] && !b->is_gone[i]; on++) {
            if (on >= 0 && !b->is_placed[on]) {
                continue;
            }
            const size_t offset = on < 0 ? 0 : b->offset[on] + b->bytes[on];
            if (rests_at(b, i, offset)) {
                const size_t end = offset + b->bytes[i];
                b->is_placed[i] = true;
                b->offset[i] = offset;
                place_rest(b, n_left - 1, end > size ? end : size, bound);
                b->is_placed[i] = false;
            }
        }
    }
}

/* Tries every node with and without each lawful in-place result, then every placement.
 * A buffer taken over lives on as the one that was there first. */
static void try_in_place(struct brute *b, int position)
{
    if (position == b->graph->n_nodes) {
        int n_left = 0;
        for (int i = 0; i < b->n; i++) {
            n_left += !b->is_gone[i];
        }
        place_rest(b, n_left, 0, alive_at_most(b));
        return;
    }
    try_in_place(b, position + 1);
    const struct node *node = b->graph->nodes[position];
    const int result = b->buffer_of[node->outputs[0]->id];
    for (int k = 0; result >= 0 && k < node->n_inputs; k++) {
        const struct value *root = root_of(node->inputs[k]);
        const int operand = b->buffer_of[root->id];
        if (!graph_node_may_reuse(node, k) || operand < 0 || b->is_gone[operand] ||
            b->end[operand] != position ||
            type_bytes(&root->type) != type_bytes(&node->outputs[0]->type)) {
            continue;
        }
        b->end[operand] = b->end[result];
        b->is_gone[result] = true;
        const int old = b->buffer_of[node->outputs[0]->id];
        b->buffer_of[node->outputs[0]->id] = operand;
        try_in_place(b, position + 1);
        b->buffer_of[node->outputs[0]->id] = old;
        b->is_gone[result] = false;
        b->end[operand] = position;
    }
}

static void small_graphs_are_near_the_optimum(void **state)
{
    (void)state;
    int n_tried = 0;
    for (uint64_t seed = 0; seed < 400 && n_tried < 120; seed++) {
        const struct random_graph_options options = {.n_nodes = 4 + (int)(seed % 4)};
        struct graph *graph = random_graph_create(seed, &options);
        struct graph *ordered = rewrite_order(graph);
        struct brute brute = {.graph = ordered, .best = SIZE_MAX};
        if (ordered->n_values < 256 && find_buffers(&brute)) {
            try_in_place(&brute, 0);
            struct plan *plan = plan_create(ordered, NULL, NULL);
            if (plan->arena_bytes * 100 > brute.best * 115) {
                fail_msg("seed %d: %zu bytes, %zu are enough", (int)seed,
                         plan->arena_bytes, brute.best);
            }
            plan_destroy(plan);
            n_tried++;
        }
        graph_destroy(ordered);
        graph_destroy(graph);
    }
    assert_true(n_tried >= 60);
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
        cmocka_unit_test(small_graphs_are_near_the_optimum),
        cmocka_unit_test(chains_run_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
