/*
 * rewrite_order - the order in which the nodes run.
 *
 * First copies where memory would be overwritten too early (hazards.c); then nodes in
 * program order, with three changes:
 *
 *   - a node waits for the readers of what it overwrites;
 *   - late nodes run just before the first that reads them: sources, what is made from
 *     parameters alone, and recomputed values (backward barriers and what follows from
 *     them alone);
 *   - early nodes run as soon as their operands are there: backward nodes that lead to
 *     one output and nothing else. These are gradients of weights; they are the last
 *     readers of saved activations, and the memory of those is free from then on.
 *
 * Nodes of neither kind keep their order, so the result is a function of the graph
 * alone.
 */
#include "base/mem.h"
#include "graph/build.h"
#include "graph/hazards.h"
#include "graph/rewrite.h"

/* ---- copies ---- */

/* New memory with the same elements. */
static struct value *append_copy(struct rewrite *rewrite, struct value *value)
{
    struct graph *to = rewrite->to;
    struct node *made = value->node;
    struct node *copy;
    to->block = made->block;
    to->is_backward = made->is_backward;
    if (made->op == OP_CONSTANT || made->op == OP_IOTA) {
        copy = graph_append_copy(to, made, NULL);
    } else {
        copy = build_cast(to, value, value->type.dtype)->node;
    }
    copy->name = arena_printf(to->arena, "%s.copy", made->name);
    return copy->outputs[0];
}

/* A copy of the node, with copies of the operands that it overwrites. */
static void copy_protected(struct rewrite *rewrite, const struct node *node)
{
    struct value **inputs = rewrite_inputs(rewrite, node);
    for (int k = 0; k < node->n_outputs; k++) {
        const int operand = graph_node_alias(node, k);
        if (operand >= 0) { /* no two results take one operand */
            inputs[operand] = append_copy(rewrite, inputs[operand]);
        }
    }
    rewrite_copy_with(rewrite, node, inputs);
    mem_free(inputs);
}

/* The graph with the copies that the hazards ask for. */
static struct graph *add_copies(const struct graph *graph,
                                const struct hazards *hazards, bool copies_outputs)
{
    struct rewrite rewrite = rewrite_begin(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (hazards->copies_operand[node->id]) {
            copy_protected(&rewrite, node);
        } else {
            rewrite_copy(&rewrite, node);
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        struct value *value = rewrite.map[output->value->id];
        struct value *donor =
            output->donor != NULL ? rewrite.map[output->donor->id] : NULL;
        if (copies_outputs && hazards->copies_output[i]) {
            /* An argument in another's buffer: by way of memory that is nobody's, so
             * that two arguments can change places. */
            if (donor != NULL && graph_node_is_argument(value->node)) {
                value = append_copy(&rewrite, value);
            }
            value = append_copy(&rewrite, value);
        }
        graph_add_output(rewrite.to, output->name, value, donor);
    }
    mem_free(rewrite.map);
    rewrite.to->block = -1;
    rewrite.to->is_backward = false;
    return rewrite.to;
}

/* Does some node need its overwritten operand copied? */
static bool any_operand_copied(const struct graph *graph, const struct hazards *hazards)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        if (hazards->copies_operand[graph->nodes[i]->id]) {
            return true;
        }
    }
    return false;
}

/* Does some output need a copy in the caller's buffer? */
static bool any_output_copied(const struct graph *graph, const struct hazards *hazards)
{
    for (int i = 0; i < graph->n_outputs; i++) {
        if (hazards->copies_output[i]) {
            return true;
        }
    }
    return false;
}

/* Operands first: with those settled, fewer outputs need a copy. */
static struct graph *protect(const struct graph *graph)
{
    struct rewrite whole = rewrite_begin(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        rewrite_copy(&whole, graph->nodes[i]);
    }
    struct graph *current = rewrite_end(&whole);
    for (;;) {
        struct hazards hazards = hazards_find(current);
        const bool copies_operands = any_operand_copied(current, &hazards);
        if (!copies_operands && !any_output_copied(current, &hazards)) {
            hazards_deinit(&hazards);
            return current;
        }
        struct graph *next = add_copies(current, &hazards, !copies_operands);
        hazards_deinit(&hazards);
        graph_destroy(current);
        current = next;
    }
}

/* ---- order ---- */

struct order {
    /* safe to run in any order that keeps operands and hazards */
    const struct graph *graph;
    struct hazards hazards;             /* of `graph` */
    bool *is_late, *is_early, *is_done; /* by node id */
    bool *is_output;                    /* by node id: makes an output of the graph */
    struct rewrite rewrite;
};

/* Some result takes the memory of an operand. */
static bool overwrites(const struct node *node)
{
    for (int k = 0; k < node->n_outputs; k++) {
        if (graph_node_alias(node, k) >= 0) {
            return true;
        }
    }
    return false;
}

static void mark_late(struct order *o)
{
    for (int i = 0; i < o->graph->n_nodes; i++) {
        const struct node *node = o->graph->nodes[i];
        bool is_late =
            !graph_node_is_argument(node) && node->op != OP_REPEAT && !overwrites(node);
        const bool is_recomputed = node->op == OP_BARRIER && node->is_backward;
        for (int k = 0; is_late && !is_recomputed && k < node->n_inputs; k++) {
            const struct node *maker = node->inputs[k]->node;
            is_late = maker->op == OP_PARAMETER || o->is_late[maker->id];
        }
        o->is_late[node->id] = is_late;
    }
}

enum { LEADS_NOWHERE = -1, LEADS_TO_MANY = -2 };

/* What is reached by two ways. */
static int join(int a, int b)
{
    if (a == LEADS_NOWHERE || a == b) {
        return b;
    }
    return b == LEADS_NOWHERE ? a : LEADS_TO_MANY;
}

/*
 * The one output of the graph that each node leads to, from the last node to the first.
 */
static void mark_early(struct order *o)
{
    const struct graph *graph = o->graph;
    const struct graph_storage *s = &o->hazards.storage;
    int *leads = mem_alloc_array((size_t)graph->next_node_id, sizeof(int));
    for (int i = 0; i < graph->next_node_id; i++) {
        leads[i] = LEADS_NOWHERE;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const int id = graph->outputs[i].value->node->id;
        leads[id] = join(leads[id], i);
        o->is_output[id] = true;
    }
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_outputs; k++) {
            const int id = node->outputs[k]->id;
            for (int r = s->reader_start[id]; r < s->reader_start[id + 1]; r++) {
                leads[node->id] = join(leads[node->id], leads[s->readers[r]->id]);
            }
        }
        o->is_early[node->id] =
            node->is_backward && !o->is_late[node->id] && leads[node->id] >= 0;
    }
    mem_free(leads);
}

/* Its operands are made, and all have run that must read before it writes. */
static bool is_ready(const struct order *o, const struct node *node)
{
    for (int k = 0; k < node->n_inputs; k++) {
        if (!o->is_done[node->inputs[k]->node->id]) {
            return false;
        }
    }
    for (int e = o->hazards.first[node->id]; e >= 0; e = o->hazards.list[e].next) {
        if (!o->is_done[o->hazards.list[e].before->id]) {
            return false;
        }
    }
    return true;
}

static void emit(struct order *o, const struct node *node);

/* Early readers of what the node made, if this was their last operand: those that make
 * an output, or the others. */
static void emit_early_readers(struct order *o, const struct node *node, bool outputs)
{
    const struct graph_storage *s = &o->hazards.storage;
    for (int k = 0; k < node->n_outputs; k++) {
        const int id = node->outputs[k]->id;
        for (int r = s->reader_start[id]; r < s->reader_start[id + 1]; r++) {
            const struct node *reader = s->readers[r];
            if (o->is_early[reader->id] && o->is_output[reader->id] == outputs &&
                is_ready(o, reader)) {
                emit(o, reader);
            }
        }
    }
}

/* The node, after all that it waits for; then the early ones that waited for it. */
static void emit(struct order *o, const struct node *node)
{
    if (o->is_done[node->id]) {
        return;
    }
    for (int k = 0; k < node->n_inputs; k++) {
        emit(o, node->inputs[k]->node);
    }
    for (int e = o->hazards.first[node->id]; e >= 0; e = o->hazards.list[e].next) {
        emit(o, o->hazards.list[e].before);
    }
    if (o->is_done[node->id]) {
        return; /* an early node, run as soon as its last operand was there */
    }
    o->is_done[node->id] = true;
    rewrite_copy(&o->rewrite, node);
    emit_early_readers(o, node, true);
    emit_early_readers(o, node, false);
}

struct graph *rewrite_order(const struct graph *graph)
{
    /* From here on some order exists that keeps all hazards. */
    struct graph *safe = protect(graph);
    const size_t n_ids = (size_t)safe->next_node_id;
    struct order o = {
        .graph = safe,
        .hazards = hazards_find(safe),
        .is_late = mem_alloc_array(n_ids, sizeof(bool)),
        .is_early = mem_alloc_array(n_ids, sizeof(bool)),
        .is_done = mem_alloc_array(n_ids, sizeof(bool)),
        .is_output = mem_alloc_array(n_ids, sizeof(bool)),
        .rewrite = rewrite_begin(safe),
    };
    mark_late(&o);
    mark_early(&o);
    for (int i = 0; i < safe->n_arguments; i++) {
        emit(&o, safe->arguments[i]->node);
    }
    for (int i = 0; i < safe->n_nodes; i++) {
        if (!o.is_late[safe->nodes[i]->id]) {
            emit(&o, safe->nodes[i]);
        }
    }
    for (int i = 0; i < safe->n_outputs; i++) {
        emit(&o, safe->outputs[i].value->node);
    }
    struct graph *ordered = rewrite_end(&o.rewrite);
    hazards_deinit(&o.hazards);
    mem_free(o.is_late);
    mem_free(o.is_early);
    mem_free(o.is_done);
    mem_free(o.is_output);
    graph_destroy(safe);
    return ordered;
}
