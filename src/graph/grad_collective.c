/*
 * grad_collective - rules of ops that change placements, and of repeat.
 *
 * The transpose of each depends on what flows back: a cotangent of a same value may be
 * the same or partial over the axis.
 */
#include "graph/build.h"
#include "graph/grad_rules.h"

/* On that axis. */
static bool is_partial(const struct value *x, enum mesh_axis axis)
{
    return x->type.placement.axis[axis].kind == PLACE_PARTIAL;
}

/* A partial cotangent summed over the axis; a same one as it is. */
static struct value *summed(struct grad_rule *rule)
{
    const enum mesh_axis axis = rule->node->attributes.mesh_axis;
    struct value *dy = rule->dy[0];
    return is_partial(dy, axis) ? build_all_reduce(rule->graph, dy, axis, REDUCE_SUM)
                                : dy;
}

/* dx = own block of dy, summed over the ranks where dy is partial */
void grad_all_gather(struct grad_rule *rule)
{
    const enum mesh_axis mesh_axis = rule->node->attributes.mesh_axis;
    const int axis = rule->node->attributes.axis;
    struct value *dy = rule->dy[0];
    rule->dx[0] = is_partial(dy, mesh_axis)
                      ? build_reduce_scatter(rule->graph, dy, mesh_axis, axis)
                      : build_take_split(rule->graph, dy, mesh_axis, axis);
}

/* Each rank's block of the sum came from all ranks' summands, which get it back
 * whole. */
void grad_reduce_scatter(struct grad_rule *rule)
{
    rule->dx[0] =
        build_all_gather(rule->graph, rule->dy[0], rule->node->attributes.mesh_axis,
                         rule->node->attributes.axis);
}

/* Of the sum only: the maximum is blocked before it comes here. */
void grad_all_reduce(struct grad_rule *rule)
{
    ASSERT(rule->node->attributes.reduce == REDUCE_SUM);
    rule->dx[0] = summed(rule);
}

/* The way back is the same exchange with its dimensions swapped. */
void grad_all_to_all(struct grad_rule *rule)
{
    const struct attributes *attributes = &rule->node->attributes;
    rule->dx[0] = build_all_to_all(rule->graph, rule->dy[0], attributes->mesh_axis,
                                   attributes->axes[1], attributes->axes[0]);
}

/* The place where ranks' different uses of one value meet again. */
void grad_fan_out(struct grad_rule *rule)
{
    rule->dx[0] = summed(rule);
}

/* Each rank's block goes back to where it was cut; what other ranks cut comes from
 * them. */
void grad_take_split(struct grad_rule *rule)
{
    rule->dx[0] =
        build_all_gather(rule->graph, rule->dy[0], rule->node->attributes.mesh_axis,
                         rule->node->attributes.axis);
}

/* grad_build says that repeats are expanded first: this is the check. */
void grad_repeat(struct grad_rule *rule)
{
    const bool repeats_are_expanded_before_autodiff = rule == NULL;
    ASSERT(repeats_are_expanded_before_autodiff);
}
