/*
 * grad - the walk: cotangents go from outputs to inputs, each node by its op's rule.
 *
 * Contributions to one value are kept in a list until the node that defines it is
 * reached; only then are they merged, so that those which are partial over an axis are
 * added up first and need one all_reduce together. Values older than the oldest `wrt`
 * cannot depend on one, so tables start there (a definition is differentiated inside a
 * large graph).
 */
#include "graph/grad.h"

#include <assert.h>

#include "graph/build.h"
#include "graph/define_rules.h"
#include "graph/grad_rules.h"

typedef void (*grad_fn)(struct grad_rule *rule);

static const grad_fn rules[] = {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    [OP_##NAME] = grad_##name,
#include "graph/ops.def"
#undef OP
};
static_assert(ARRAY_LENGTH(rules) == OP_COUNT, "one rule per op");

/* One summand of a value's cotangent. */
struct contribution {
    struct value *value;
    struct contribution *next; /* made later */
};

struct walk {
    struct graph *graph;
    int first_id; /* tables are indexed by value id - first_id */
    int n_values;
    bool *depends; /* on some wrt, through ops that have gradients */
    struct contribution **contributions; /* lists, oldest first; NULL = none */
};

/* Values older than the tables, and those that the walk itself appends, do not. */
static bool depends(const struct walk *walk, const struct value *x)
{
    const int i = x->id - walk->first_id;
    return 0 <= i && i < walk->n_values && walk->depends[i];
}

/* Only what depends on a wrt collects cotangents. */
static struct contribution **list_of(const struct walk *walk, const struct value *x)
{
    ASSERT(depends(walk, x));
    return &walk->contributions[x->id - walk->first_id];
}

/* Appends, so that sums are in the order in which contributions were made. */
static void contribute(const struct walk *walk, const struct value *x,
                       struct value *cotangent)
{
    ASSERT(type_shape_equal(&x->type.shape, &cotangent->type.shape));
    struct contribution *fresh = arena_alloc(walk->graph->arena, sizeof(*fresh));
    fresh->value = cotangent;
    struct contribution **end = list_of(walk, x);
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = fresh;
}

/* all_reduce over the axes where x is partial and `placement` is not. */
static struct value *settle(struct graph *graph, struct value *x,
                            const struct placement *placement)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (x->type.placement.axis[axis].kind == PLACE_PARTIAL &&
            placement->axis[axis].kind != PLACE_PARTIAL) {
            x = build_all_reduce(graph, x, (enum mesh_axis)axis, REDUCE_SUM);
        }
    }
    return x;
}

/* The placement in which all contributions can be added: partial where all are. */
static struct placement common_placement(const struct contribution *list)
{
    struct placement common = list->value->type.placement;
    for (const struct contribution *c = list->next; c != NULL; c = c->next) {
        for (int axis = 0; axis < MESH_N_AXES; axis++) {
            if (c->value->type.placement.axis[axis].kind != PLACE_PARTIAL) {
                common.axis[axis] = c->value->type.placement.axis[axis];
            }
        }
    }
    return common;
}

/* f32 where any contribution is (weights beside bf16 activations), else as they are. */
static enum dtype common_dtype(const struct contribution *list)
{
    enum dtype dtype = list->value->type.dtype;
    for (const struct contribution *c = list->next; c != NULL; c = c->next) {
        if (dtype_bytes(c->value->type.dtype) > dtype_bytes(dtype)) {
            dtype = c->value->type.dtype;
        }
    }
    return dtype;
}

/* The sum of all contributions; those of equal placement are added before they are
 * reduced. Takes the list apart. */
static struct value *merge(struct graph *graph, struct contribution *list)
{
    const struct placement common = common_placement(list);
    const enum dtype dtype = common_dtype(list);
    struct value *sum = NULL;
    while (list != NULL) {
        struct value *group = define_cast(graph, list->value, dtype);
        /* One group: what is placed like the first that is left. */
        const struct placement placement = group->type.placement;
        list = list->next;
        struct contribution **at = &list;
        while (*at != NULL) {
            struct value *value = (*at)->value;
            if (!placement_equal(&value->type.placement, &placement)) {
                at = &(*at)->next;
                continue;
            }
            group = build_add(graph, group, define_cast(graph, value, dtype));
            *at = (*at)->next;
        }
        group = settle(graph, group, &common);
        sum = sum == NULL ? group : build_add(graph, sum, group);
    }
    return sum;
}

/* The cotangent of x, merged and kept as its only contribution; NULL: none. */
static struct value *cotangent_of(const struct walk *walk, const struct value *x)
{
    if (!depends(walk, x) || *list_of(walk, x) == NULL) {
        return NULL;
    }
    struct contribution **list = list_of(walk, x);
    struct value *sum = merge(walk->graph, *list);
    *list = NULL;
    contribute(walk, x, sum);
    return sum;
}

/* In program order, so one walk is enough. Booleans and whole numbers end the
 * dependence: they have no derivative. */
static void mark_dependents(struct walk *walk, int first_node, int n_nodes)
{
    for (int i = first_node; i < n_nodes; i++) {
        const struct node *node = walk->graph->nodes[i];
        bool any = false;
        for (int j = 0; j < node->n_inputs; j++) {
            any = any || depends(walk, node->inputs[j]);
        }
        if (!any || grad_is_blocked(node)) {
            continue;
        }
        for (int j = 0; j < node->n_outputs; j++) {
            const struct value *y = node->outputs[j];
            walk->depends[y->id - walk->first_id] = dtype_is_float(y->type.dtype);
        }
    }
}

/*
 * Runs the rule of one node, if a cotangent arrives and somebody waits for the result.
 */
static void visit(const struct walk *walk, const struct node *node)
{
    struct graph *graph = walk->graph;
    const size_t n_inputs = (size_t)node->n_inputs;
    struct value **dx = arena_alloc_array(graph->arena, n_inputs + 1, sizeof(*dx));
    bool *wanted = arena_alloc_array(graph->arena, n_inputs + 1, sizeof(*wanted));
    struct value **dy =
        arena_alloc_array(graph->arena, (size_t)node->n_outputs + 1, sizeof(*dy));

    bool is_wanted = false, arrives = false;
    for (int i = 0; i < node->n_inputs; i++) {
        wanted[i] = depends(walk, node->inputs[i]);
        is_wanted = is_wanted || wanted[i];
    }
    if (!is_wanted || grad_is_blocked(node)) {
        return;
    }
    graph->block = node->block;
    const char *outer = graph->scope;
    /* The node's name is whole, with its own scope. */
    graph->scope = "";
    graph_push_scope(graph, node->name);
    for (int i = 0; i < node->n_outputs; i++) {
        dy[i] = cotangent_of(walk, node->outputs[i]);
        if (dy[i] != NULL && !grad_takes_wide_cotangent(node)) {
            dy[i] = define_cast(graph, dy[i], node->outputs[i]->type.dtype);
        }
        arrives = arrives || dy[i] != NULL;
    }
    if (arrives) {
        struct grad_rule rule = {
            .graph = graph, .node = node, .dy = dy, .dx = dx, .wanted = wanted};
        rules[node->op](&rule);
    }
    graph_pop_scope(graph, outer);
    for (int i = 0; i < node->n_inputs; i++) {
        if (dx[i] != NULL && wanted[i]) {
            contribute(walk, node->inputs[i], dx[i]);
        }
    }
}

/* The tables live in the graph's arena: they are small beside the nodes that are
 * made. */
static struct walk walk_begin(struct graph *graph, int n_wrt, struct value *const *wrt)
{
    struct walk walk = {
        .graph = graph, .first_id = graph->n_values, .n_values = graph->n_values};
    for (int i = 0; i < n_wrt; i++) {
        walk.first_id = (int)base_min(walk.first_id, wrt[i]->id);
    }
    walk.n_values = graph->n_values - walk.first_id;
    const size_t n = (size_t)walk.n_values + 1;
    walk.depends = arena_alloc_array(graph->arena, n, sizeof(*walk.depends));
    walk.contributions =
        arena_alloc_array(graph->arena, n, sizeof(struct contribution *));
    for (int i = 0; i < n_wrt; i++) {
        walk.depends[wrt[i]->id - walk.first_id] = true;
    }
    return walk;
}

/* Index of the first node that could read a value of the tables. */
static int first_node_of(const struct walk *walk)
{
    int first = walk->graph->n_nodes;
    while (first > 0) {
        const struct node *node = walk->graph->nodes[first - 1];
        if (node->n_outputs > 0 &&
            node->outputs[node->n_outputs - 1]->id < walk->first_id) {
            break;
        }
        first--;
    }
    return first;
}

/* Nodes are visited from the last to the first: when one is reached, all that read its
 * results have contributed. */
void grad_build(struct graph *graph, int n_outputs, struct value *const *outputs,
                struct value *const *seeds, int n_wrt, struct value *const *wrt,
                const struct grad_options *options, struct value **gradients)
{
    const bool was_backward = graph->is_backward;
    const int outer_block = graph->block;
    struct walk walk = walk_begin(graph, n_wrt, wrt);
    const int first = first_node_of(&walk);
    const int n_nodes = graph->n_nodes;
    mark_dependents(&walk, first, n_nodes);

    graph->is_backward = true;
    for (int i = 0; i < n_outputs; i++) {
        if (depends(&walk, outputs[i])) {
            contribute(&walk, outputs[i], seeds[i]);
        }
    }
    for (int i = n_nodes - 1; i >= first; i--) {
        visit(&walk, graph->nodes[i]);
    }
    for (int i = 0; i < n_wrt; i++) {
        graph->block = wrt[i]->node->block;
        gradients[i] = cotangent_of(&walk, wrt[i]);
        if (gradients[i] != NULL && !options->keeps_partial) {
            gradients[i] = settle(graph, gradients[i], &wrt[i]->type.placement);
        }
    }
    graph->is_backward = was_backward;
    graph->block = outer_block;
}
