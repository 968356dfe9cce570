/*
 * rewrite_lower - composites replaced by what they mean.
 *
 * The nodes of a definition take the name, the block and the direction of the node they
 * stand for. A definition may itself hold composites, so the walk is repeated until
 * none is left that is wanted.
 */
#include "base/mem.h"
#include "graph/define.h"
#include "graph/rewrite.h"

/* Primitives have no definition. */
static bool is_lowered(const struct node *node, rewrite_wants_fn wants)
{
    return op_kind(node->op) != OP_KIND_PRIMITIVE && (wants == NULL || wants(node));
}

/* Is there anything left to do, in the graph or in a body? */
static bool has_composites(const struct graph *graph, rewrite_wants_fn wants)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (is_lowered(node, wants)) {
            return true;
        }
        if (node->op == OP_REPEAT && has_composites(node->body, wants)) {
            return true;
        }
    }
    return false;
}

/* A definition must give the very types that infer gave: it is what infer asked. */
static void lower_node(struct rewrite *rewrite, const struct node *node, bool is_tiled)
{
    struct value **inputs = rewrite_inputs(rewrite, node);
    struct value **outputs =
        mem_alloc_array((size_t)node->n_outputs, sizeof(struct value *));
    struct graph *to = rewrite->to;
    to->block = node->block;
    to->is_backward = node->is_backward;
    /* Nodes of the definition are called after the node they stand for. */
    const char *outer = graph_push_scope(to, node->name);
    struct define define = {
        .graph = to,
        .n_inputs = node->n_inputs,
        .inputs = inputs,
        .attributes = &node->attributes,
        .n_outputs = node->n_outputs,
        .outputs = outputs,
        .is_tiled = is_tiled,
    };
    define_op(node->op, &define);
    graph_pop_scope(to, outer);
    for (int i = 0; i < node->n_outputs; i++) {
        ASSERT(outputs[i] != NULL);
        ASSERT(type_equal(&outputs[i]->type, &node->outputs[i]->type));
        rewrite->map[node->outputs[i]->id] = outputs[i];
    }
    mem_free(inputs);
    mem_free(outputs);
}

/* The body is lowered to the end at once, by itself. */
static void lower_repeat(struct rewrite *rewrite, const struct node *node,
                         rewrite_wants_fn wants, bool is_tiled)
{
    struct value **inputs = rewrite_inputs(rewrite, node);
    struct graph *to = rewrite->to;
    to->block = node->block;
    to->is_backward = node->is_backward;
    const struct node *copy =
        graph_append(to, OP_REPEAT, node->n_inputs, inputs, &node->attributes,
                     rewrite_lower(node->body, wants, is_tiled), node->name);
    for (int i = 0; i < node->n_outputs; i++) {
        rewrite->map[node->outputs[i]->id] = copy->outputs[i];
    }
    mem_free(inputs);
}

/* One level: definitions that have just been written in are left for the next walk. */
static struct graph *lower_once(const struct graph *graph, rewrite_wants_fn wants,
                                bool is_tiled)
{
    struct rewrite rewrite = rewrite_begin(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (is_lowered(node, wants)) {
            lower_node(&rewrite, node, is_tiled);
        } else if (node->op == OP_REPEAT && has_composites(node->body, wants)) {
            lower_repeat(&rewrite, node, wants, is_tiled);
        } else {
            rewrite_copy(&rewrite, node);
        }
    }
    return rewrite_end(&rewrite);
}

struct graph *rewrite_lower(const struct graph *graph, rewrite_wants_fn wants,
                            bool is_tiled)
{
    struct graph *lowered = lower_once(graph, wants, is_tiled);
    /* Ends: no definition holds the op it defines, not even by way of others. */
    while (has_composites(lowered, wants)) {
        struct graph *next = lower_once(lowered, wants, is_tiled);
        graph_destroy(lowered);
        lowered = next;
    }
    return lowered;
}
