/*
 * grad_elementwise - rules of ops that treat each element alone, of sources, and what
 * all rules share.
 *
 * Cotangents may be partial where the value is the same on all ranks; these rules only
 * multiply them by such values, so the result is partial as well.
 */
#include "graph/build.h"
#include "graph/define_rules.h"
#include "graph/grad_rules.h"

/* The maximum over ranks only ever shifts what an exponential gets, which changes no
 * result. */
bool grad_is_blocked(const struct node *node)
{
    return node->op == OP_STOP_GRADIENT ||
           (node->op == OP_ALL_REDUCE && node->attributes.reduce == REDUCE_MAX);
}

/* Both rules cast by themselves. */
bool grad_takes_wide_cotangent(const struct node *node)
{
    return node->op == OP_USE_PARAM || node->op == OP_CAST;
}

/* x is what such an op made: its cotangent may be wider than x. */
enum dtype grad_cotangent_dtype(const struct value *x)
{
    const struct node *node = x->node;
    const bool is_wide = node->op == OP_USE_PARAM ||
                         (node->op == OP_CAST && dtype_is_float(x->type.dtype) &&
                          node->inputs[0]->type.dtype == DTYPE_F32);
    return is_wide ? define_math_dtype(x->type.dtype) : x->type.dtype;
}

struct placement grad_placement(const struct value *x, const struct value *dy)
{
    struct placement placement = x->type.placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        struct place *place = &placement.axis[axis];
        if (place->kind == PLACE_PARTIAL) {
            place->kind = PLACE_SAME;
        } else if (place->kind == PLACE_SAME &&
                   dy->type.placement.axis[axis].kind == PLACE_PARTIAL) {
            place->kind = PLACE_PARTIAL;
        }
    }
    return placement;
}

/* Constant zero may have any placement: a sum of zeros is zero. */
struct value *grad_zeros(struct graph *graph, enum dtype dtype, struct shape shape,
                         struct placement placement)
{
    const struct type type = {.dtype = dtype, .shape = shape, .placement = placement};
    return build_constant(graph, type, 0.0);
}

/* A scalar is never split, so it is the same there; partial it must be where dy is, for
 * a select to take both. */
struct value *grad_zero_scalar(struct graph *graph, const struct value *dy)
{
    struct placement placement = dy->type.placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement.axis[axis].kind == PLACE_SPLIT) {
            placement = placement_with(placement, (enum mesh_axis)axis, PLACE_SAME, 0);
        }
    }
    return grad_zeros(graph, dy->type.dtype, type_shape(0, NULL), placement);
}

/* The sum over what was split is partial, and that over the rest complete. */
struct value *grad_unspread(struct graph *graph, const struct value *operand,
                            struct value *g)
{
    const int axes[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    if (operand->type.shape.rank > 0 || g->type.shape.rank == 0) {
        return g;
    }
    return build_reduce_sum(graph, g, g->type.shape.rank, axes);
}

/* ---- no gradient ---- */

void grad_parameter(struct grad_rule *rule)
{
    (void)rule;
}

void grad_input(struct grad_rule *rule)
{
    (void)rule;
}

void grad_constant(struct grad_rule *rule)
{
    (void)rule;
}

void grad_iota(struct grad_rule *rule)
{
    (void)rule;
}

void grad_random_bits(struct grad_rule *rule)
{
    (void)rule;
}

void grad_axis_index(struct grad_rule *rule)
{
    (void)rule;
}

void grad_compare(struct grad_rule *rule)
{
    (void)rule;
}

void grad_is_finite(struct grad_rule *rule)
{
    (void)rule;
}

void grad_stop_gradient(struct grad_rule *rule)
{
    (void)rule;
}

/* The same bits read as another type have no derivative. */
void grad_bitcast(struct grad_rule *rule)
{
    (void)rule;
}

/* ---- one operand ---- */

/* Identity, both ways. */
void grad_barrier(struct grad_rule *rule)
{
    rule->dx[0] = rule->dy[0];
}

/* Between floats; the cotangent takes the operand's dtype. */
void grad_cast(struct grad_rule *rule)
{
    const struct value *x = rule->node->inputs[0];
    rule->dx[0] = define_cast(rule->graph, rule->dy[0], x->type.dtype);
}

/* y = exp x: dx = dy y */
void grad_exp(struct grad_rule *rule)
{
    rule->dx[0] = build_mul(rule->graph, rule->dy[0], rule->node->outputs[0]);
}

/* y = ln x: dx = dy / x */
void grad_log(struct grad_rule *rule)
{
    rule->dx[0] = build_div(rule->graph, rule->dy[0], rule->node->inputs[0]);
}

/* dx = dy (1 - y^2) */
void grad_tanh(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *y = rule->node->outputs[0];
    struct value *square = build_mul(graph, y, y);
    struct value *slope = build_shift(graph, build_scale(graph, square, -1.0), 1.0);
    rule->dx[0] = build_mul(graph, rule->dy[0], slope);
}

/* dx = dy / (2 y) */
void grad_sqrt(struct grad_rule *rule)
{
    struct value *half = build_scale(rule->graph, rule->dy[0], 0.5);
    rule->dx[0] = build_div(rule->graph, half, rule->node->outputs[0]);
}

/* dx = -dy y^3 / 2 */
void grad_rsqrt(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *y = rule->node->outputs[0];
    struct value *cube = build_mul(graph, build_mul(graph, y, y), y);
    rule->dx[0] = build_mul(graph, rule->dy[0], build_scale(graph, cube, -0.5));
}

/* dx = -dy sin x */
void grad_cos(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *slope =
        build_scale(graph, build_sin(graph, rule->node->inputs[0]), -1.0);
    rule->dx[0] = build_mul(graph, rule->dy[0], slope);
}

/* dx = dy cos x */
void grad_sin(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *slope = build_cos(graph, rule->node->inputs[0]);
    rule->dx[0] = build_mul(graph, rule->dy[0], slope);
}

/* ---- two operands and select ---- */

/* Sets dx[i], summed where operand i is a scalar. */
static void give(struct grad_rule *rule, int i, struct value *g)
{
    rule->dx[i] = grad_unspread(rule->graph, rule->node->inputs[i], g);
}

/* da = dy, db = dy */
void grad_add(struct grad_rule *rule)
{
    for (int i = 0; i < 2; i++) {
        if (rule->wanted[i]) {
            give(rule, i, rule->dy[0]);
        }
    }
}

/* da = dy, db = -dy */
void grad_sub(struct grad_rule *rule)
{
    if (rule->wanted[0]) {
        give(rule, 0, rule->dy[0]);
    }
    if (rule->wanted[1]) {
        give(rule, 1, build_scale(rule->graph, rule->dy[0], -1.0));
    }
}

/* da = dy b, db = dy a */
void grad_mul(struct grad_rule *rule)
{
    for (int i = 0; i < 2; i++) {
        if (rule->wanted[i]) {
            struct value *other = rule->node->inputs[1 - i];
            give(rule, i, build_mul(rule->graph, rule->dy[0], other));
        }
    }
}

/* da = dy / b, db = -(dy / b) y */
void grad_div(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *quotient = build_div(graph, rule->dy[0], rule->node->inputs[1]);
    if (rule->wanted[0]) {
        give(rule, 0, quotient);
    }
    if (rule->wanted[1]) {
        struct value *g = build_mul(graph, quotient, rule->node->outputs[0]);
        give(rule, 1, build_scale(graph, g, -1.0));
    }
}

/* The larger one gets all; of equal ones the first. */
void grad_max(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *const *x = rule->node->inputs;
    struct value *first = build_compare(graph, COMPARE_GE, x[0], x[1]);
    struct value *zero = grad_zero_scalar(graph, rule->dy[0]);
    if (rule->wanted[0]) {
        give(rule, 0, build_select(graph, first, rule->dy[0], zero));
    }
    if (rule->wanted[1]) {
        give(rule, 1, build_select(graph, first, zero, rule->dy[0]));
    }
}

/* Each branch gets dy where it was taken, zero elsewhere; the condition has no
 * derivative. */
void grad_select(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *condition = rule->node->inputs[0];
    struct value *zero = grad_zero_scalar(graph, rule->dy[0]);
    if (rule->wanted[1]) {
        give(rule, 1, build_select(graph, condition, rule->dy[0], zero));
    }
    if (rule->wanted[2]) {
        give(rule, 2, build_select(graph, condition, zero, rule->dy[0]));
    }
}
