/*
 * plan - buffers from values, lifetimes from program order, offsets from plan_pack.c.
 *
 * 1. Values in one memory (views, overwritten operands) are one buffer
 *    (graph_storage.c). A buffer that holds an argument or an output is the caller's;
 *    an output with a donor is made in the donor's buffer (rewrite_order has seen to
 *    it that this is safe).
 * 2. In place: an elementwise node takes over the buffer of an operand of the same size
 *    which nobody reads later, if it is the arena's.
 * 3. A buffer lives from the node that makes it to the last that reads it; scratch
 *    lives while its node runs.
 */
#include "graph/plan.h"

#include "base/mem.h"
#include "graph/graph_storage.h"
#include "graph/plan_pack.h"

/* One buffer, known by the id of the value that makes it. */
struct buffer {
    enum plan_kind kind;
    int index;      /* of the argument or output */
    int taken_over; /* in place: the buffer it lives in, or -1 */
    size_t bytes;   /* of the value that makes it: the largest in it */
    int start, end; /* positions in program order */
    int item;       /* arena: index of its pack_item */
};

struct planning {
    const struct graph *graph;
    struct graph_storage storage;
    struct buffer *buffers;  /* by value id of the root */
    plan_scratch_fn scratch; /* NULL = no node needs any */
    void *context;
    struct plan_pack_item *items; /* buffers, then scratch */
    int n_items;                  /* of items */
    int *scratch_item;            /* by position, -1 = none */
};

/* Offsets stay multiples of a cache line. */
static size_t align(size_t bytes)
{
    return (bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}

/* The buffer that the root's elements really live in. */
static int holder_of(const struct planning *p, int root)
{
    while (p->buffers[root].taken_over >= 0) {
        root = p->buffers[root].taken_over;
    }
    return root;
}

/* Donors are arguments of the graph (verify), so it is found. */
static int argument_index(const struct graph *graph, const struct value *value)
{
    for (int i = 0; i < graph->n_arguments; i++) {
        if (graph->arguments[i] == value) {
            return i;
        }
    }
    UNREACHABLE();
}

/* A buffer lives from its first value to the last node that makes or reads one of
 * them. */
static void add_buffers(struct planning *p)
{
    const struct graph_storage *s = &p->storage;
    for (int i = 0; i < p->graph->n_nodes; i++) {
        const struct node *node = p->graph->nodes[i];
        for (int k = 0; k < node->n_outputs; k++) {
            const int id = node->outputs[k]->id;
            struct buffer *buffer = &p->buffers[s->root[id]];
            if (s->root[id] == id) {
                *buffer = (struct buffer){
                    .kind = PLAN_ARENA,
                    .taken_over = -1,
                    .bytes = type_bytes(&node->outputs[k]->type),
                    .start = i,
                };
            }
            buffer->end = i;
        }
        for (int k = 0; k < node->n_inputs; k++) {
            p->buffers[s->root[node->inputs[k]->id]].end = i;
        }
    }
}

/* An output that is made in place has its argument's buffer already. What leaves the
 * graph stays alive to the end. */
static void place_callers_buffers(struct planning *p)
{
    const struct graph *graph = p->graph;
    for (int i = 0; i < graph->n_arguments; i++) {
        struct buffer *buffer = &p->buffers[graph->arguments[i]->id];
        buffer->kind = PLAN_ARGUMENT;
        buffer->index = i;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        struct buffer *buffer = &p->buffers[p->storage.root[output->value->id]];
        const bool is_given = output->donor != NULL;
        const int index = is_given ? argument_index(graph, output->donor) : i;
        if (buffer->kind != PLAN_ARENA) {
            /* made in place: an accumulator of the caller's */
            ASSERT(is_given && buffer->kind == PLAN_ARGUMENT && buffer->index == index);
            continue;
        }
        ASSERT(type_bytes(&output->value->type) == buffer->bytes);
        buffer->kind = is_given ? PLAN_ARGUMENT : PLAN_OUTPUT;
        buffer->index = index;
        buffer->end = graph->n_nodes;
    }
}

/* Does the node read the buffer `holder` otherwise than element by element? */
static bool reads_across(const struct planning *p, const struct node *node, int holder)
{
    for (int k = 0; k < node->n_inputs; k++) {
        const int id = node->inputs[k]->id;
        if (holder_of(p, p->storage.root[id]) == holder &&
            (p->storage.offset[id] != 0 || !graph_node_may_reuse(node, k))) {
            return true;
        }
    }
    return false;
}

/* Lets the node's result take over the buffer of an operand, if one is free to take. */
static void take_over(struct planning *p, const struct node *node, int position)
{
    const int id = node->outputs[0]->id;
    struct buffer *result = &p->buffers[id];
    /* A view has no memory of its own, and an argument's buffer is chosen already. */
    const bool is_mine = p->storage.root[id] == id && result->kind != PLAN_ARGUMENT;
    for (int k = 0; is_mine && k < node->n_inputs; k++) {
        if (!graph_node_may_reuse(node, k)) {
            continue;
        }
        const int holder = holder_of(p, p->storage.root[node->inputs[k]->id]);
        struct buffer *operand = &p->buffers[holder];
        if (operand->kind != PLAN_ARENA || operand->end != position ||
            operand->bytes != result->bytes || reads_across(p, node, holder)) {
            continue;
        }
        /* One buffer from now on: it lives as long as both, where the result has to
         * be. */
        operand->end = result->end;
        operand->kind = result->kind;
        operand->index = result->index;
        result->taken_over = holder;
        return;
    }
}

/* Arena buffers and scratch as items to pack. */
static void collect_items(struct planning *p)
{
    const struct graph *graph = p->graph;
    /* At most one item per result, and scratch per node. */
    int capacity = graph->n_nodes;
    for (int i = 0; i < graph->n_nodes; i++) {
        capacity += graph->nodes[i]->n_outputs;
    }
    p->items = mem_alloc_array((size_t)capacity, sizeof(*p->items));
    p->scratch_item = mem_alloc_array((size_t)graph->n_nodes, sizeof(int));
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_outputs; k++) {
            const int id = node->outputs[k]->id;
            struct buffer *buffer = &p->buffers[id];
            if (p->storage.root[id] == id && buffer->taken_over < 0 &&
                buffer->kind == PLAN_ARENA) {
                buffer->item = p->n_items;
                p->items[p->n_items++] =
                    (struct plan_pack_item){.bytes = align(buffer->bytes),
                                            .start = buffer->start,
                                            .end = buffer->end};
            }
        }
        const size_t bytes = p->scratch != NULL ? p->scratch(node, p->context) : 0;
        p->scratch_item[i] = bytes > 0 ? p->n_items : -1;
        if (bytes > 0) {
            p->items[p->n_items++] =
                (struct plan_pack_item){.bytes = align(bytes), .start = i, .end = i};
        }
    }
}

/* The order matters: what is the caller's must be known before anything is taken over,
 * and lifetimes are final only after that. */
static struct planning planning_begin(const struct graph *ordered,
                                      plan_scratch_fn scratch, void *context)
{
    struct planning p = {
        .graph = ordered,
        .storage = graph_storage_create(ordered, NULL),
        .buffers = mem_alloc_array((size_t)ordered->n_values, sizeof(struct buffer)),
        .scratch = scratch,
        .context = context,
    };
    add_buffers(&p);
    place_callers_buffers(&p);
    for (int i = 0; i < ordered->n_nodes; i++) {
        if (ordered->nodes[i]->n_outputs == 1) {
            take_over(&p, ordered->nodes[i], i);
        }
    }
    collect_items(&p);
    return p;
}

static void planning_end(struct planning *p)
{
    graph_storage_deinit(&p->storage);
    mem_free(p->buffers);
    mem_free(p->items);
    mem_free(p->scratch_item);
}

/* Views add their offset to that of the buffer. */
static struct plan_slot slot_of(const struct planning *p, int id)
{
    const struct buffer *holder = &p->buffers[holder_of(p, p->storage.root[id])];
    struct plan_slot slot = {
        .kind = holder->kind,
        .index = holder->index,
        .offset = p->storage.offset[id],
    };
    if (holder->kind == PLAN_ARENA) {
        slot.index = 0;
        slot.offset += p->items[holder->item].offset;
    }
    return slot;
}

/* Values that no node makes (ids of nodes that passes left out) keep PLAN_NONE. */
struct plan *plan_create(const struct graph *ordered, plan_scratch_fn scratch,
                         void *context)
{
    struct planning p = planning_begin(ordered, scratch, context);
    struct plan *plan = mem_alloc(sizeof(*plan));
    plan->arena_bytes = plan_pack_items(p.items, p.n_items);
    plan->n_slots = ordered->n_values;
    plan->n_nodes = ordered->n_nodes;
    plan->slots = mem_alloc_array((size_t)plan->n_slots, sizeof(*plan->slots));
    plan->scratch_offsets = mem_alloc_array((size_t)plan->n_nodes, sizeof(size_t));
    for (int id = 0; id < plan->n_slots; id++) {
        plan->slots[id].kind = PLAN_NONE;
    }
    for (int i = 0; i < ordered->n_nodes; i++) {
        const struct node *node = ordered->nodes[i];
        for (int k = 0; k < node->n_outputs; k++) {
            plan->slots[node->outputs[k]->id] = slot_of(&p, node->outputs[k]->id);
        }
        if (p.scratch_item[i] >= 0) {
            plan->scratch_offsets[i] = p.items[p.scratch_item[i]].offset;
        }
    }
    planning_end(&p);
    return plan;
}

void plan_destroy(struct plan *plan)
{
    if (plan == NULL) {
        return;
    }
    mem_free(plan->slots);
    mem_free(plan->scratch_offsets);
    mem_free(plan);
}

size_t plan_live_peak(const struct graph *ordered, plan_scratch_fn scratch,
                      void *context)
{
    struct planning p = planning_begin(ordered, scratch, context);
    const size_t peak = plan_pack_peak(p.items, p.n_items);
    planning_end(&p);
    return peak;
}
