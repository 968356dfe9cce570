/*
 * rewrite - the walk that every pass shares: copy a graph node by node, with other
 * inputs where the pass wants them. A pass that leaves a node out maps its outputs by
 * hand.
 */
#include "graph/rewrite.h"

#include "base/mem.h"

/* Block numbers go on where the old graph's end, so that new blocks never share one. */
struct rewrite rewrite_begin(const struct graph *from)
{
    struct rewrite rewrite = {
        .from = from,
        .to = graph_create(&from->mesh),
        .map = mem_alloc_array((size_t)from->n_values, sizeof(struct value *)),
    };
    rewrite.to->next_block = from->next_block;
    return rewrite;
}

/* Nodes are taken in program order, so every operand has been mapped before. */
struct value **rewrite_inputs(const struct rewrite *rewrite, const struct node *node)
{
    struct value **inputs =
        mem_alloc_array((size_t)node->n_inputs, sizeof(struct value *));
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = rewrite->map[node->inputs[i]->id];
        ASSERT(inputs[i] != NULL);
    }
    return inputs;
}

struct node *rewrite_copy_with(struct rewrite *rewrite, const struct node *node,
                               struct value *const *inputs)
{
    rewrite->to->block = node->block;
    rewrite->to->is_backward = node->is_backward;
    struct node *copy = graph_append_copy(rewrite->to, node, inputs);
    for (int i = 0; i < node->n_outputs; i++) {
        rewrite->map[node->outputs[i]->id] = copy->outputs[i];
    }
    return copy;
}

struct node *rewrite_copy(struct rewrite *rewrite, const struct node *node)
{
    struct value **inputs = rewrite_inputs(rewrite, node);
    struct node *copy = rewrite_copy_with(rewrite, node, inputs);
    mem_free(inputs);
    return copy;
}

/* Donors are arguments, which every pass keeps or maps. */
struct graph *rewrite_end(struct rewrite *rewrite)
{
    const struct graph *from = rewrite->from;
    for (int i = 0; i < from->n_outputs; i++) {
        const struct graph_output *output = &from->outputs[i];
        struct value *value = rewrite->map[output->value->id];
        ASSERT(value != NULL);
        struct value *donor =
            output->donor != NULL ? rewrite->map[output->donor->id] : NULL;
        graph_add_output(rewrite->to, output->name, value, donor);
    }
    mem_free(rewrite->map);
    rewrite->map = NULL;
    rewrite->to->block = -1;
    rewrite->to->is_backward = false;
    return rewrite->to;
}
