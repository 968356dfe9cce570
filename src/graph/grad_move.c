/*
 * grad_move - rules of ops that move elements: each sends them back where they came
 * from, adding those that went to several places.
 */
#include "graph/build.h"
#include "graph/define_rules.h"
#include "graph/grad_rules.h"

/* The same elements in x's shape. */
void grad_reshape(struct grad_rule *rule)
{
    const struct value *x = rule->node->inputs[0];
    rule->dx[0] = build_reshape_placed(rule->graph, rule->dy[0], x->type.shape,
                                       grad_placement(x, rule->dy[0]));
}

/* y.dim[i] = x.dim[axes[i]]: the way back has the inverse permutation. */
void grad_transpose(struct grad_rule *rule)
{
    const struct attributes *attributes = &rule->node->attributes;
    int inverse[SHAPE_MAX_RANK] = {0};
    for (int i = 0; i < rule->dy[0]->type.shape.rank; i++) {
        inverse[attributes->axes[i]] = i;
    }
    rule->dx[0] = build_transpose(rule->graph, rule->dy[0], inverse);
}

/* Sums over what is new or was stretched, then puts the ones of length 1 back. */
void grad_broadcast(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    const struct value *x = rule->node->inputs[0];
    const struct value *y = rule->node->outputs[0];
    const struct attributes *attributes = &rule->node->attributes;
    int summed[SHAPE_MAX_RANK];
    int n_summed = 0;
    int next = 0; /* dimension of x that comes next in y */
    for (int axis = 0; axis < y->type.shape.rank; axis++) {
        const bool is_of_x =
            next < x->type.shape.rank && attributes->axes[next] == axis;
        if (!is_of_x) {
            summed[n_summed++] = axis;
            continue;
        }
        if (x->type.shape.dim[next] != y->type.shape.dim[axis]) {
            summed[n_summed++] = axis;
        }
        next++;
    }
    struct value *g = rule->dy[0];
    if (n_summed > 0) {
        g = build_reduce_sum(graph, g, n_summed, summed);
    }
    /* A reduction takes stretched dimensions away, x has them with length 1. */
    if (g->type.shape.rank != x->type.shape.rank) {
        g = build_reshape_placed(graph, g, x->type.shape, grad_placement(x, g));
    }
    rule->dx[0] = g;
}

/* Zeros around dy where x was cut away. */
void grad_slice(struct grad_rule *rule)
{
    const struct shape *shape = &rule->node->inputs[0]->type.shape;
    const struct attributes *attributes = &rule->node->attributes;
    int64_t after[SHAPE_MAX_RANK] = {0};
    for (int i = 0; i < shape->rank; i++) {
        after[i] = shape->dim[i] - attributes->limit[i];
    }
    rule->dx[0] = build_pad(rule->graph, rule->dy[0], attributes->start, after);
}

/* The part of dy that is x. */
void grad_pad(struct grad_rule *rule)
{
    const struct shape *shape = &rule->node->inputs[0]->type.shape;
    const int64_t *before = rule->node->attributes.start;
    int64_t limit[SHAPE_MAX_RANK] = {0};
    for (int i = 0; i < shape->rank; i++) {
        limit[i] = before[i] + shape->dim[i];
    }
    rule->dx[0] = build_slice(rule->graph, rule->dy[0], before, limit);
}

/* Each part gets its own stretch of dy. */
void grad_concat(struct grad_rule *rule)
{
    const int axis = rule->node->attributes.axis;
    int64_t start = 0;
    for (int i = 0; i < rule->node->n_inputs; i++) {
        const int64_t length = rule->node->inputs[i]->type.shape.dim[axis];
        if (rule->wanted[i]) {
            rule->dx[i] =
                build_slice_axis(rule->graph, rule->dy[0], axis, start, start + length);
        }
        start += length;
    }
}

/* Zeros, with dy written where x was read. */
void grad_dynamic_slice(struct grad_rule *rule)
{
    const struct value *x = rule->node->inputs[0];
    struct value *dy = rule->dy[0];
    struct value *zeros =
        grad_zeros(rule->graph, dy->type.dtype, x->type.shape, dy->type.placement);
    rule->dx[0] = build_dynamic_update_slice(
        rule->graph, zeros, dy, rule->node->inputs[1], rule->node->attributes.axis);
}

/* What was overwritten has no influence: zeros there for x; the part gets dy from
 * there. */
void grad_dynamic_update_slice(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    const struct value *part = rule->node->inputs[1];
    struct value *start = rule->node->inputs[2];
    struct value *dy = rule->dy[0];
    const int axis = rule->node->attributes.axis;
    if (rule->wanted[0]) {
        struct value *zeros =
            grad_zeros(graph, dy->type.dtype, part->type.shape, dy->type.placement);
        rule->dx[0] = build_dynamic_update_slice(graph, dy, zeros, start, axis);
    }
    if (rule->wanted[1]) {
        rule->dx[1] =
            build_dynamic_slice(graph, dy, start, axis, part->type.shape.dim[axis]);
    }
}

/* Rows that were read often get a sum; over axes where ids differ it is partial. */
static struct value *scatter_back(struct grad_rule *rule, struct value *ids,
                                  struct value *rows, int64_t ignore_row)
{
    struct graph *graph = rule->graph;
    const struct value *table = rule->node->inputs[0];
    struct placement placement = grad_placement(table, rows);
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (table->type.placement.axis[axis].kind == PLACE_SAME &&
            rows->type.placement.axis[axis].kind == PLACE_SPLIT) {
            placement =
                placement_with(placement, (enum mesh_axis)axis, PLACE_PARTIAL, 0);
        }
    }
    /* In f32 where a weight takes it: many small rows add up in one place. */
    const enum dtype dtype = grad_cotangent_dtype(table);
    struct value *zeros = grad_zeros(graph, dtype, table->type.shape, placement);
    return build_scatter_add_rows(graph, zeros, ids, define_cast(graph, rows, dtype),
                                  NULL, ignore_row);
}

/* The transpose of looking up is adding up, at the same ids. */
void grad_gather_rows(struct grad_rule *rule)
{
    rule->dx[0] = scatter_back(rule, rule->node->inputs[1], rule->dy[0],
                               rule->node->attributes.ignore_row);
}

/* True if the rows of the table are dealt out over some axis. */
static bool is_split_by_rows(const struct value *table)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = table->type.placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == 0) {
            return true;
        }
    }
    return false;
}

/* row = table[id] * scale */
void grad_embed(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    const struct value *table = rule->node->inputs[0];
    struct value *ids = rule->node->inputs[1];
    int64_t ignore_row = rule->node->attributes.ignore_row;
    struct value *rows = rule->dy[0];
    if (rule->node->attributes.value != 1.0) {
        rows =
            build_scale(graph, define_widen(graph, rows), rule->node->attributes.value);
    }
    if (is_split_by_rows(table)) {
        ids = define_local_ids(graph, table, ids, ignore_row);
        ignore_row = -1;
    }
    rule->dx[0] = scatter_back(rule, ids, rows, ignore_row);
}

/* rows[i] went to acc[ids[i]], unless that is the row to ignore. */
void grad_scatter_add_rows(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *ids = rule->node->inputs[1];
    struct value *dy = rule->dy[0];
    if (rule->wanted[0]) {
        rule->dx[0] = rule->node->n_inputs == 3
                          ? dy
                          : build_select(graph, rule->node->inputs[3], dy,
                                         grad_zero_scalar(graph, dy));
    }
    if (!rule->wanted[2]) {
        return;
    }
    struct value *g = build_gather_rows(graph, dy, ids, -1);
    const int64_t ignored = rule->node->attributes.ignore_row;
    if (ignored >= 0) {
        const int axes[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5};
        struct value *row = build_scalar(graph, ids->type.dtype, (double)ignored);
        struct value *counts = build_compare(graph, COMPARE_NE, ids, row);
        struct value *mask = build_broadcast(graph, counts, g->type.shape, axes,
                                             grad_placement(g, counts));
        g = build_select(graph, mask, g, grad_zero_scalar(graph, g));
    }
    rule->dx[2] = g;
}
