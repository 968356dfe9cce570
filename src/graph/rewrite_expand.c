/*
 * rewrite_expand - repeats unrolled into straight code.
 *
 * Every value of the old graph (and of each body instance) has a slot. A slot holds the
 * new value, or its parts: a stacked parameter becomes one parameter per slice and is
 * never made whole; the stacked results of a repeat stay apart until somebody wants
 * them whole (a following repeat takes the parts as they are). Nested bodies take runs
 * of parts.
 *
 * Blocks: every longest run of nodes without a repeat between them, within one
 * iteration, is a block: an innermost body's instance, or what an outer body has beside
 * its inner repeats. Constants and slices made here belong to no block (-1).
 */
#include "base/mem.h"
#include "graph/build.h"
#include "graph/rewrite.h"

struct slot {
    struct value *value;  /* the whole, or NULL while only parts exist */
    struct value **parts; /* [n_parts], row-major over the leading `depth` dimensions */
    int n_parts, depth;   /* parts are slices along so many dimensions */
};

/* One body (or the top graph) with the slots of its values, by value id. */
struct frame {
    const struct graph *graph;
    struct slot *slots;
    const char *prefix; /* of node names: "layers.3." */
    bool is_top;        /* not a body: inputs are real, blocks are given */
};

struct expand {
    struct graph *to;    /* the straight graph */
    struct arena *arena; /* slots and prefixes; lives as long as the pass */
};

/*
 * Leading dimensions come or go, splits keep their dimensions' elements. The placement
 * is given, as next to lengths of 1 the rule for reshape cannot tell where they belong.
 */
static struct value *reshape_to(struct graph *to, struct value *value,
                                const struct type *type)
{
    if (type_equal(&value->type, type)) {
        return value;
    }
    return build_reshape_placed(to, value, type->shape, type->placement);
}

/* Nodes made between these two belong to no block. */
static int enter_no_block(struct expand *e)
{
    const int block = e->to->block;
    e->to->block = -1;
    return block;
}

/* The value as a whole: parts are joined when first asked for. */
static struct value *slot_value(struct expand *e, struct slot *slot,
                                const struct type *type)
{
    if (slot->value != NULL) {
        return slot->value;
    }
    ASSERT(slot->n_parts > 0);
    const int block = enter_no_block(e);
    struct value **rows =
        mem_alloc_array((size_t)slot->n_parts, sizeof(struct value *));
    for (int i = 0; i < slot->n_parts; i++) {
        const struct type row = type_stack(&slot->parts[i]->type, 1);
        rows[i] = reshape_to(e->to, slot->parts[i], &row);
    }
    struct value *whole =
        slot->n_parts > 1 ? build_concat(e->to, rows, slot->n_parts, 0) : rows[0];
    slot->value = reshape_to(e->to, whole, type);
    mem_free(rows);
    e->to->block = block;
    return slot->value;
}

/* Row `i` of n of a stacked value. */
static struct slot slot_row(struct expand *e, struct slot *slot, int i, int n,
                            const struct type *stacked)
{
    if (slot->n_parts > 0) {
        /* Parts are row-major, so a row's are side by side. */
        const int per_row = slot->n_parts / n;
        ASSERT(slot->depth >= 1 && per_row * n == slot->n_parts);
        if (slot->depth == 1) {
            return (struct slot){.value = slot->parts[i]};
        }
        return (struct slot){.parts = slot->parts + i * per_row,
                             .n_parts = per_row,
                             .depth = slot->depth - 1};
    }
    const int block = enter_no_block(e);
    const struct type row = type_slice(stacked, 1);
    struct value *slice = build_slice_axis(e->to, slot->value, 0, i, i + 1);
    struct slot result = {.value = reshape_to(e->to, slice, &row)};
    e->to->block = block;
    return result;
}

/* Through how many repeats, one in the other, `value` of `graph` is fed as stacked. */
static int stacked_depth(const struct graph *graph, const struct value *value)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (node->op != OP_REPEAT) {
            continue;
        }
        const int n_carries = node->attributes.n_carries;
        for (int k = 0; k < node->attributes.n_stacked; k++) {
            if (node->inputs[n_carries + k] == value) {
                const struct value *row = node->body->arguments[1 + n_carries + k];
                return 1 + stacked_depth(node->body, row);
            }
        }
    }
    return 0;
}

/* A stacked parameter's slices as parameters of their own; false if it is not one. */
static bool expand_parameter(struct expand *e, const struct graph *graph,
                             const struct node *node, struct slot *slot)
{
    const struct type *type = &node->outputs[0]->type;
    const int deepest = stacked_depth(graph, node->outputs[0]);
    int64_t n = 1;
    int depth = 0;
    while (depth < deepest &&
           (depth == 0 || n < node->n_names || type->shape.dim[depth] == 1)) {
        n *= type->shape.dim[depth++];
    }
    /* Nobody takes it apart that far: it stays one parameter. */
    if (depth == 0 || n != node->n_names) {
        return false;
    }
    const struct type slice = type_slice(type, depth);
    *slot = (struct slot){
        .parts = arena_alloc_array(e->arena, (size_t)n, sizeof(struct value *)),
        .n_parts = (int)n,
        .depth = depth,
    };
    for (int i = 0; i < slot->n_parts; i++) {
        const char *name = node->names != NULL ? node->names[i] : node->name;
        slot->parts[i] = build_parameter(e->to, name, slice, node->is_trainable);
    }
    return true;
}

/* Operands as wholes; freed by mem_free. */
static struct value **gather_inputs(struct expand *e, struct frame *frame,
                                    const struct node *node)
{
    struct value **inputs =
        mem_alloc_array((size_t)node->n_inputs, sizeof(struct value *));
    for (int i = 0; i < node->n_inputs; i++) {
        const struct value *input = node->inputs[i];
        inputs[i] = slot_value(e, &frame->slots[input->id], &input->type);
    }
    return inputs;
}

/* The node as it is. Inside a body its name gets the iteration in front. */
static void expand_plain(struct expand *e, struct frame *frame, const struct node *node)
{
    struct value **inputs = gather_inputs(e, frame, node);
    struct graph *to = e->to;
    to->is_backward = node->is_backward;
    struct node *copy = graph_append_copy(to, node, inputs);
    if (!frame->is_top) {
        copy->name = arena_printf(to->arena, "%s%s", frame->prefix, node->name);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        frame->slots[node->outputs[i]->id].value = copy->outputs[i];
    }
    mem_free(inputs);
}

static void expand_frame(struct expand *e, struct frame *frame);

/* Slots of the body's arguments in iteration `i`. */
static void bind_arguments(struct expand *e, struct frame *frame,
                           const struct node *node, int i, const struct slot *carries,
                           const int *uses, struct slot *slots)
{
    const struct attributes *a = &node->attributes;
    const struct graph *body = node->body;
    struct value *const *arguments = body->arguments;
    if (uses[arguments[0]->id] > 0) {
        const int block = enter_no_block(e);
        slots[arguments[0]->id].value = build_scalar(e->to, DTYPE_I32, i);
        e->to->block = block;
    }
    for (int k = 0; k < node->n_inputs; k++) {
        const struct value *input = node->inputs[k];
        struct slot *from = &frame->slots[input->id];
        struct slot *slot = &slots[arguments[1 + k]->id];
        if (k < a->n_carries) {
            *slot = carries[k];
        } else if (k < a->n_carries + a->n_stacked) {
            *slot = slot_row(e, from, i, a->n_iterations, &input->type);
        } else {
            /* Invariants are wanted whole by the body. */
            slot_value(e, from, &input->type);
            *slot = *from;
        }
    }
}

/*
 * Carries pass from iteration to iteration as slots; results collect in the parts of
 * the node's outputs. Nothing of the body is copied but its nodes, once per iteration.
 */
static void expand_repeat(struct expand *e, struct frame *frame,
                          const struct node *node)
{
    const struct attributes *a = &node->attributes;
    const struct graph *body = node->body;
    const int n = a->n_iterations;
    const int n_results = node->n_outputs - a->n_carries;
    int *uses = graph_count_uses(body);
    struct slot *carries =
        arena_alloc_array(e->arena, (size_t)a->n_carries, sizeof(*carries));
    for (int k = 0; k < a->n_carries; k++) {
        const struct value *input = node->inputs[k];
        slot_value(e, &frame->slots[input->id], &input->type);
        carries[k] = frame->slots[input->id];
    }
    for (int r = 0; r < n_results; r++) {
        struct slot *slot = &frame->slots[node->outputs[a->n_carries + r]->id];
        *slot = (struct slot){
            .parts = arena_alloc_array(e->arena, (size_t)n, sizeof(struct value *)),
            .n_parts = n,
            .depth = 1,
        };
    }
    for (int i = 0; i < n; i++) {
        struct frame inner = {
            .graph = body,
            .slots = arena_alloc_array(e->arena, (size_t)body->n_values,
                                       sizeof(struct slot)),
            .prefix = arena_printf(e->arena, "%s%s.%d.", frame->prefix, node->name, i),
        };
        bind_arguments(e, frame, node, i, carries, uses, inner.slots);
        expand_frame(e, &inner);
        for (int k = 0; k < a->n_carries; k++) {
            /* What an iteration leaves is what the next one gets. */
            carries[k] = inner.slots[body->outputs[k].value->id];
        }
        for (int r = 0; r < n_results; r++) {
            const struct value *result = body->outputs[a->n_carries + r].value;
            struct slot *slot = &frame->slots[node->outputs[a->n_carries + r]->id];
            slot->parts[i] = slot_value(e, &inner.slots[result->id], &result->type);
        }
    }
    for (int k = 0; k < a->n_carries; k++) {
        frame->slots[node->outputs[k]->id] = carries[k];
    }
    mem_free(uses);
}

/* A block is opened by the first node that needs one, so that empty runs take no
 * number. */
static void expand_frame(struct expand *e, struct frame *frame)
{
    const struct graph *graph = frame->graph;
    bool starts_block = true;
    int block = -1;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        e->to->block = frame->is_top ? node->block : block;
        if (node->op == OP_REPEAT) {
            expand_repeat(e, frame, node);
            starts_block = true;
            continue;
        }
        if (node->op == OP_INPUT && !frame->is_top) {
            continue; /* bound by the repeat */
        }
        if (node->op == OP_PARAMETER &&
            expand_parameter(e, graph, node, &frame->slots[node->outputs[0]->id])) {
            continue;
        }
        if (!frame->is_top && starts_block) {
            block = e->to->next_block++;
            starts_block = false;
            e->to->block = block;
        }
        expand_plain(e, frame, node);
    }
}

struct graph *rewrite_expand(const struct graph *graph)
{
    struct expand e = {.to = graph_create(&graph->mesh), .arena = arena_create()};
    e.to->next_block = graph->next_block;
    struct frame top = {
        .graph = graph,
        .slots =
            arena_alloc_array(e.arena, (size_t)graph->n_values, sizeof(struct slot)),
        .prefix = "",
        .is_top = true,
    };
    expand_frame(&e, &top);
    e.to->block = -1;
    e.to->is_backward = false;
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        struct slot *slot = &top.slots[output->value->id];
        struct value *donor = NULL;
        if (output->donor != NULL) {
            donor = top.slots[output->donor->id].value;
            ASSERT(donor != NULL); /* a stacked parameter gives no memory */
        }
        graph_add_output(e.to, output->name, slot_value(&e, slot, &output->value->type),
                         donor);
    }
    arena_destroy(e.arena);
    return e.to;
}
