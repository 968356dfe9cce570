/*
 * rewrite_simplify - nodes that change nothing go, equal nodes become one, dead ones
 * go.
 *
 * One walk in program order: a node that a rule can do without is replaced by an older
 * value of equal type; else a node equal to an earlier one (same op, attributes and
 * operands) is replaced by that. Barriers, arguments, repeats and nodes that overwrite
 * an operand are always kept apart. A second walk drops what no output needs; arguments
 * stay.
 *
 * The rules are exact to the last bit, but for one: x + 0 turns a negative zero
 * positive and leaving it out does not.
 */
#include "base/mem.h"
#include "graph/build.h"
#include "graph/rewrite.h"

struct simplify {
    struct rewrite rewrite;
    struct node **buckets; /* open addressing; nodes of the new graph */
    size_t n_buckets;      /* a power of two, at least twice the nodes */
};

/* Every element is `number` (0 also fits a negative zero). */
static bool is_constant(const struct value *value, double number)
{
    const struct node *node = value->node;
    return node->op == OP_CONSTANT && node->attributes.value == number;
}

/* `value` if it can stand for a result of this type. Shape, dtype and placement: a
 * result of the same numbers in another placement is another value. */
static struct value *if_type(struct value *value, const struct type *type)
{
    return type_equal(&value->type, type) ? value : NULL;
}

/* x + 0, x - 0, x * 1, x / 1 */
static struct value *simplify_arithmetic(const struct node *node,
                                         struct value *const *in,
                                         const struct type *type)
{
    const double neutral = node->op == OP_ADD || node->op == OP_SUB ? 0 : 1;
    if (is_constant(in[1], neutral)) {
        return if_type(in[0], type);
    }
    const bool commutes = node->op == OP_ADD || node->op == OP_MUL;
    if (commutes && is_constant(in[0], neutral)) {
        return if_type(in[1], type);
    }
    return NULL;
}

/* Among floats alone; bf16 and f16 have one size, and neither holds all of the
 * other. */
static bool is_wider(enum dtype wide, enum dtype narrow)
{
    return dtype_is_float(wide) && dtype_is_float(narrow) &&
           dtype_bytes(wide) > dtype_bytes(narrow);
}

/* A cast to the same type; to a wider one and back. */
static struct value *simplify_cast(struct value *x, const struct type *type)
{
    if (if_type(x, type) != NULL) {
        return x;
    }
    /* The wide type holds every number of the narrow one. */
    if (x->node->op == OP_CAST && is_wider(x->type.dtype, type->dtype)) {
        return if_type(x->node->inputs[0], type);
    }
    return NULL;
}

/* A reshape to the same type, or of a reshape. */
static struct value *simplify_reshape(struct simplify *s, struct value *x,
                                      const struct node *node)
{
    const struct type *type = &node->outputs[0]->type;
    struct value *base = x;
    while (base->node->op == OP_RESHAPE) {
        base = base->node->inputs[0];
    }
    if (if_type(base, type) != NULL) {
        return base;
    }
    if (base == x) {
        return NULL;
    }
    struct attributes attributes = node->attributes;
    /* The rule for one reshape may give another placement than two in a row did. */
    attributes.placement = type->placement;
    attributes.has_placement = true;
    return graph_append(s->rewrite.to, OP_RESHAPE, 1, &base, &attributes, NULL,
                        node->name)
        ->outputs[0];
}

/* A transpose that moves nothing, alone or together with the one before. */
static struct value *simplify_transpose(struct value *x, const struct node *node)
{
    const int rank = node->outputs[0]->type.shape.rank;
    const bool is_double = x->node->op == OP_TRANSPOSE;
    for (int i = 0; i < rank; i++) {
        int from = node->attributes.axes[i];
        if (is_double) {
            from = x->node->attributes.axes[from];
        }
        if (from != i) {
            return NULL;
        }
    }
    return is_double ? x->node->inputs[0] : x;
}

/* An older value that equals output 0 of the node with operands `in`, or NULL. */
static struct value *simplify_node(struct simplify *s, const struct node *node,
                                   struct value *const *in)
{
    if (node->n_outputs != 1 || node->n_inputs == 0) {
        return NULL;
    }
    const struct type *type = &node->outputs[0]->type;
    switch ((int)node->op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
        return simplify_arithmetic(node, in, type);
    case OP_CAST:
        return simplify_cast(in[0], type);
    case OP_BITCAST:
    case OP_USE_PARAM:
    case OP_SLICE:
    case OP_PAD:
    case OP_BROADCAST:
        return if_type(in[0], type);
    case OP_REDUCE_SUM:
    case OP_REDUCE_MAX:
        return node->attributes.n_axes == 0 ? if_type(in[0], type) : NULL;
    case OP_CONCAT:
        return node->n_inputs == 1 ? if_type(in[0], type) : NULL;
    case OP_RESHAPE:
        return simplify_reshape(s, in[0], node);
    case OP_TRANSPOSE:
        return simplify_transpose(in[0], node);
    }
    return NULL;
}

/* Two writers of one operand are two writings, and a barrier is there to keep apart. */
static bool may_merge(const struct node *node)
{
    if (graph_node_is_argument(node) || node->op == OP_BARRIER ||
        node->op == OP_REPEAT) {
        return false;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (graph_node_alias(node, i) >= 0) {
            return false;
        }
    }
    return true;
}

/* Equal nodes have to hash alike, which holds for any choice of fields; these are the
 * ones in which nodes of one op mostly differ. */
static size_t hash_node(enum op op, int n_inputs, struct value *const *inputs,
                        const struct attributes *attributes)
{
    uint64_t hash = 1469598103934665603u + (uint64_t)op; /* FNV-1a over what varies */
    for (int i = 0; i < n_inputs; i++) {
        hash = (hash ^ (uint64_t)inputs[i]->id) * 1099511628211u;
    }
    for (int i = 0; i < SHAPE_MAX_RANK; i++) {
        hash = (hash ^ (uint64_t)attributes->shape.dim[i]) * 1099511628211u;
        hash = (hash ^ (uint64_t)attributes->start[i]) * 1099511628211u;
    }
    return (size_t)(hash ^ hash >> 32);
}

/* n_outputs follows from op, operands and attributes. */
static bool is_same_work(const struct node *a, const struct node *b,
                         struct value *const *b_inputs)
{
    if (a->op != b->op || a->n_inputs != b->n_inputs) {
        return false;
    }
    for (int i = 0; i < a->n_inputs; i++) {
        if (a->inputs[i] != b_inputs[i]) {
            return false;
        }
    }
    return attributes_equal(&a->attributes, &b->attributes);
}

/*
 * The bucket of an earlier node that does the same, or the free one where it would be.
 */
static struct node **find_same(struct simplify *s, const struct node *node,
                               struct value *const *inputs)
{
    const size_t mask = s->n_buckets - 1;
    size_t at = hash_node(node->op, node->n_inputs, inputs, &node->attributes) & mask;
    while (s->buckets[at] != NULL && !is_same_work(s->buckets[at], node, inputs)) {
        at = (at + 1) & mask;
    }
    return &s->buckets[at];
}

/* Operands are those of the new graph, so that what was merged before counts as equal
 * now. */
static void walk_node(struct simplify *s, const struct node *node)
{
    struct rewrite *rewrite = &s->rewrite;
    struct value **in = rewrite_inputs(rewrite, node);
    rewrite->to->block = node->block;
    rewrite->to->is_backward = node->is_backward;
    struct value *older = simplify_node(s, node, in);
    if (older != NULL) {
        rewrite->map[node->outputs[0]->id] = older;
    } else if (!may_merge(node)) {
        rewrite_copy(rewrite, node);
    } else {
        struct node **bucket = find_same(s, node, in);
        if (*bucket == NULL) {
            *bucket = rewrite_copy(rewrite, node);
        }
        for (int i = 0; i < node->n_outputs; i++) {
            rewrite->map[node->outputs[i]->id] = (*bucket)->outputs[i];
        }
    }
    mem_free(in);
}

/* The graph without nodes that no output needs. */
static struct graph *drop_dead(const struct graph *graph)
{
    bool *is_live = mem_alloc_array((size_t)graph->next_node_id, sizeof(bool));
    for (int i = 0; i < graph->n_outputs; i++) {
        is_live[graph->outputs[i].value->node->id] = true;
    }
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *node = graph->nodes[i];
        if (graph_node_is_argument(node)) {
            is_live[node->id] = true;
        }
        for (int k = 0; is_live[node->id] && k < node->n_inputs; k++) {
            is_live[node->inputs[k]->node->id] = true;
        }
    }
    struct rewrite rewrite = rewrite_begin(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        if (is_live[graph->nodes[i]->id]) {
            rewrite_copy(&rewrite, graph->nodes[i]);
        }
    }
    mem_free(is_live);
    return rewrite_end(&rewrite);
}

/* The table never fills: it has at least two buckets per node. */
struct graph *rewrite_simplify(const struct graph *graph)
{
    struct simplify s = {.rewrite = rewrite_begin(graph), .n_buckets = 64};
    while (s.n_buckets < 2 * (size_t)graph->n_nodes) {
        s.n_buckets *= 2;
    }
    s.buckets = mem_alloc_array(s.n_buckets, sizeof(*s.buckets));
    for (int i = 0; i < graph->n_nodes; i++) {
        walk_node(&s, graph->nodes[i]);
    }
    mem_free(s.buckets);
    struct graph *merged = rewrite_end(&s.rewrite);
    struct graph *result = drop_dead(merged);
    graph_destroy(merged);
    return result;
}
