/*
 * rewrite_accumulate - gradients summed over micro-batches, in place.
 *
 * A gradient is a tree of additions; its leaves, in program order, form a chain that
 * starts at the accumulator: each leaf adds itself to what the chain holds so far. A
 * matmul, a scatter into zeros and the loss head do that as part of their own work; any
 * other leaf gets an accumulate op behind it. So the gradient of a tied embedding table
 * goes from the accumulator through the loss head into the scatter, and no second [V,
 * D] array exists.
 *
 *     acc -> loss_head(acc, keep) -> scatter_add_rows(that, ids, rows) -> output
 */
#include <string.h>

#include "base/mem.h"
#include "graph/build.h"
#include "graph/rewrite.h"

enum leaf_kind { LEAF_MATMUL, LEAF_SCATTER, LEAF_LOSS_HEAD, LEAF_OTHER };

/* One summand of a gradient. */
struct leaf {
    enum leaf_kind kind;
    const struct value *base;  /* what is made; `value` is a reshape of it, or itself */
    const struct value *value; /* the summand itself, of the gradient's type */
    int after;                 /* the leaf it is added to, -1 = the accumulator */
    int gradient;              /* index into outputs */
    int next_of_same;          /* the next leaf with this base, or -1 */
    int position;              /* of the node that makes `base`; -1 for arguments */
    struct value *result;      /* in the new graph: the sum up to and with this leaf */
};

struct accumulate {
    struct rewrite rewrite;
    const int *uses;     /* by value id: how often it is read, outputs too */
    int *position;       /* by node id, in program order */
    struct leaf *leaves; /* chains one after the other, each in its order */
    size_t n_leaves, capacity;
    int *first_leaf;             /* by value id of `base`, -1 = none */
    int *last_leaf;              /* by gradient */
    struct value **accumulators; /* by gradient: inputs of the new graph */
    struct value *keep;          /* bool scalar input of the new graph */
};

/* Also a constant of more than one element. */
static bool is_zero(const struct value *value)
{
    const struct node *node = value->node;
    return node->op == OP_CONSTANT && node->attributes.value == 0;
}

/* How the node that makes `value` can add to an accumulator. */
static enum leaf_kind leaf_kind_of(const struct accumulate *a,
                                   const struct value *value)
{
    const struct node *node = value->node;
    if (a->uses[value->id] != 1) {
        return LEAF_OTHER;
    }
    if (node->op == OP_MATMUL && node->n_inputs == 2) {
        return LEAF_MATMUL;
    }
    if (node->op == OP_SCATTER_ADD_ROWS && node->n_inputs == 3 &&
        is_zero(node->inputs[0])) {
        return LEAF_SCATTER;
    }
    if (node->op == OP_LOSS_HEAD && node->n_inputs == 5 && value->index == 4) {
        return LEAF_LOSS_HEAD;
    }
    return LEAF_OTHER;
}

/*
 * Collects the summands of `value`; additions and reshapes that nobody else reads go.
 */
static void collect_leaves(struct accumulate *a, const struct value *value,
                           int gradient)
{
    const struct node *node = value->node;
    /* A scalar that is spread by the addition is no summand of this shape. */
    if (node->op == OP_ADD && a->uses[value->id] == 1 &&
        type_equal(&node->inputs[0]->type, &value->type) &&
        type_equal(&node->inputs[1]->type, &value->type)) {
        collect_leaves(a, node->inputs[0], gradient);
        collect_leaves(a, node->inputs[1], gradient);
        return;
    }
    const struct value *base = value;
    while (base->node->op == OP_RESHAPE && a->uses[base->id] == 1) {
        base = base->node->inputs[0];
    }
    enum leaf_kind kind = leaf_kind_of(a, base);
    if (kind == LEAF_OTHER) {
        base = value;
    }
    a->leaves =
        mem_reserve_one(a->leaves, a->n_leaves, &a->capacity, sizeof(*a->leaves));
    a->leaves[a->n_leaves++] = (struct leaf){
        .kind = kind,
        .base = base,
        .value = value,
        .gradient = gradient,
        .next_of_same = -1,
        .position =
            graph_node_is_argument(base->node) ? -1 : a->position[base->node->id],
    };
}

/* The order in which walk_node writes them: of one node, those that fold come first,
 * the others follow in the order of its results. */
static bool comes_after(const struct leaf *a, const struct leaf *b)
{
    if (a->position != b->position) {
        return a->position > b->position;
    }
    if ((a->kind == LEAF_OTHER) != (b->kind == LEAF_OTHER)) {
        return a->kind == LEAF_OTHER;
    }
    return a->base->index > b->base->index;
}

/* Puts leaves [first, n) of one gradient in program order (insertion sort: few). */
static void chain_leaves(struct accumulate *a, size_t first)
{
    for (size_t i = first + 1; i < a->n_leaves; i++) {
        const struct leaf leaf = a->leaves[i];
        size_t j = i;
        for (; j > first && comes_after(&a->leaves[j - 1], &leaf); j--) {
            a->leaves[j] = a->leaves[j - 1];
        }
        a->leaves[j] = leaf;
    }
    for (size_t i = first; i < a->n_leaves; i++) {
        a->leaves[i].after = i == first ? -1 : (int)i - 1;
    }
}

/* Links leaves that share a base; the first in chain order comes first. */
static void link_leaves(struct accumulate *a)
{
    const int n_values = a->rewrite.from->n_values;
    a->first_leaf = mem_alloc_array((size_t)n_values, sizeof(int));
    for (int i = 0; i < n_values; i++) {
        a->first_leaf[i] = -1;
    }
    for (size_t i = a->n_leaves; i-- > 0;) {
        struct leaf *leaf = &a->leaves[i];
        leaf->next_of_same = a->first_leaf[leaf->base->id];
        a->first_leaf[leaf->base->id] = (int)i;
    }
}

/* What the leaf adds itself to, in the shape of its base. */
static struct value *leaf_start(struct accumulate *a, const struct leaf *leaf)
{
    struct value *start = leaf->after < 0 ? a->accumulators[leaf->gradient]
                                          : a->leaves[leaf->after].result;
    ASSERT(start != NULL);
    const struct type *type = &leaf->base->type;
    if (type_equal(&start->type, type)) {
        return start;
    }
    return build_reshape_placed(a->rewrite.to, start, type->shape, type->placement);
}

/* Only the start of the chain asks whether the accumulator counts; from then on all
 * do. */
static struct value *leaf_keep(const struct accumulate *a, const struct leaf *leaf)
{
    return leaf->after < 0 ? a->keep : NULL;
}

/* Back in the shape of the gradient. */
static void set_result(struct accumulate *a, struct leaf *leaf, struct value *sum)
{
    const struct type *type = &leaf->value->type;
    leaf->result =
        type_equal(&sum->type, type)
            ? sum
            : build_reshape_placed(a->rewrite.to, sum, type->shape, type->placement);
}

/* The node again, with the accumulator (and keep) as further operands. */
static void fold_leaf(struct accumulate *a, struct leaf *leaf)
{
    struct rewrite *rewrite = &a->rewrite;
    const struct node *node = leaf->base->node;
    struct value *start = leaf_start(a, leaf);
    struct value *keep = leaf_keep(a, leaf);
    /* The loss head has the most: five, accumulator and keep. */
    struct value *inputs[8];
    int n = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[n++] = rewrite->map[node->inputs[i]->id];
    }
    if (leaf->kind == LEAF_SCATTER) {
        inputs[0] = start; /* instead of zeros */
    } else {
        inputs[n++] = start;
    }
    if (keep != NULL) {
        inputs[n++] = keep;
    }
    const struct node *sum = graph_append(rewrite->to, node->op, n, inputs,
                                          &node->attributes, NULL, node->name);
    for (int i = 0; i < node->n_outputs; i++) {
        rewrite->map[node->outputs[i]->id] = sum->outputs[i];
    }
    set_result(a, leaf, sum->outputs[leaf->base->index]);
}

/* Behind another leaf of the chain there is always something to keep. */
static void add_leaf(struct accumulate *a, struct leaf *leaf)
{
    struct value *g = a->rewrite.map[leaf->value->id];
    struct value *start = leaf_start(a, leaf);
    struct value *keep = leaf_keep(a, leaf);
    if (keep == NULL) {
        keep = build_constant(a->rewrite.to, type_scalar(DTYPE_BOOL), 1);
    }
    leaf->result = build_accumulate(a->rewrite.to, start, keep, g);
}

/* Does the node make a leaf that adds to the chain by itself? */
static bool is_folded(const struct accumulate *a, const struct node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const int first = a->first_leaf[node->outputs[i]->id];
        if (first >= 0 && a->leaves[first].kind != LEAF_OTHER) {
            return true;
        }
    }
    return false;
}

/* A folded node is not copied: its sum stands for it, for other readers of its other
 * results too (the loss head's loss). */
static void walk_node(struct accumulate *a, const struct node *node)
{
    const bool folds = is_folded(a, node);
    struct graph *to = a->rewrite.to;
    if (!folds) {
        rewrite_copy(&a->rewrite, node);
    }
    to->block = node->block;
    to->is_backward = node->is_backward;
    for (int pass = 0; pass < 2; pass++) {
        const bool adds = pass == 1; /* what folds makes the node, so it comes first */
        for (int i = 0; i < node->n_outputs; i++) {
            const int first = a->first_leaf[node->outputs[i]->id];
            for (int l = first; l >= 0; l = a->leaves[l].next_of_same) {
                struct leaf *leaf = &a->leaves[l];
                if (adds && leaf->kind == LEAF_OTHER) {
                    add_leaf(a, leaf);
                } else if (!adds && leaf->kind != LEAF_OTHER) {
                    fold_leaf(a, leaf);
                }
            }
        }
    }
}

/* The arguments of the old graph first, then "keep" and the accumulators. */
static void add_arguments(struct accumulate *a, int n, const char *const *outputs)
{
    struct rewrite *rewrite = &a->rewrite;
    const struct graph *from = rewrite->from;
    for (int i = 0; i < from->n_arguments; i++) {
        rewrite_copy(rewrite, from->arguments[i]->node);
    }
    rewrite->to->block = -1;
    rewrite->to->is_backward = false;
    a->keep = graph_find_argument(rewrite->to, "keep");
    if (a->keep == NULL) {
        a->keep = build_input(rewrite->to, "keep", type_scalar(DTYPE_BOOL));
    }
    for (int i = 0; i < n; i++) {
        const int output = graph_find_output(from, outputs[i]);
        ASSERT(output >= 0);
        const char *name = arena_printf(rewrite->to->arena, "acc.%s", outputs[i]);
        a->accumulators[i] =
            build_input(rewrite->to, name, from->outputs[output].value->type);
    }
}

/* Outputs as before, those of the list with their sums and donors. */
static struct graph *finish(struct accumulate *a, int n, const char *const *outputs)
{
    const struct graph *from = a->rewrite.from;
    struct graph *to = a->rewrite.to;
    for (int i = 0; i < from->n_outputs; i++) {
        const struct graph_output *output = &from->outputs[i];
        struct value *value = a->rewrite.map[output->value->id];
        struct value *donor =
            output->donor != NULL ? a->rewrite.map[output->donor->id] : NULL;
        for (int k = 0; k < n; k++) {
            if (strcmp(outputs[k], output->name) == 0) {
                value = a->leaves[a->last_leaf[k]].result;
                donor = a->accumulators[k];
            }
        }
        ASSERT(value != NULL);
        graph_add_output(to, output->name, value, donor);
    }
    to->block = -1;
    to->is_backward = false;
    return to;
}

/* Chains are made on the old graph; the walk then writes each leaf where its node
 * stands. */
struct graph *rewrite_accumulate(const struct graph *graph, int n,
                                 const char *const *outputs)
{
    int *uses = graph_count_uses(graph);
    struct accumulate a = {
        .rewrite = rewrite_begin(graph),
        .uses = uses,
        .position = mem_alloc_array((size_t)graph->next_node_id, sizeof(int)),
        .last_leaf = mem_alloc_array((size_t)n, sizeof(int)),
        .accumulators = mem_alloc_array((size_t)n, sizeof(struct value *)),
    };
    for (int i = 0; i < graph->n_nodes; i++) {
        a.position[graph->nodes[i]->id] = i;
    }
    for (int i = 0; i < n; i++) {
        const size_t first = a.n_leaves;
        const int output = graph_find_output(graph, outputs[i]);
        ASSERT(output >= 0);
        collect_leaves(&a, graph->outputs[output].value, i);
        chain_leaves(&a, first);
        a.last_leaf[i] = (int)a.n_leaves - 1;
    }
    link_leaves(&a);
    add_arguments(&a, n, outputs);
    for (size_t l = 0; l < a.n_leaves; l++) {
        if (graph_node_is_argument(a.leaves[l].base->node)) {
            add_leaf(&a, &a.leaves[l]);
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        if (!graph_node_is_argument(graph->nodes[i])) {
            walk_node(&a, graph->nodes[i]);
        }
    }
    struct graph *result = finish(&a, n, outputs);
    mem_free(a.rewrite.map);
    mem_free(a.position);
    mem_free(a.leaves);
    mem_free(a.first_leaf);
    mem_free(a.last_leaf);
    mem_free(a.accumulators);
    mem_free(uses);
    return result;
}
