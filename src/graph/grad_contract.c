/*
 * grad_contract - rules of products and reductions.
 */
#include "graph/build.h"
#include "graph/define_rules.h"
#include "graph/grad_rules.h"

/*
 * y = a' b' with a' [M, K] and b' [K, N] after their transposes: da' = dy b'^T, db' =
 * a'^T dy; written so that the result comes in a's and b's own order. The sums are
 * handed over in f32 where the operand can take them (a weight).
 */
static void give_product(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *a = rule->node->inputs[0];
    struct value *b = rule->node->inputs[1];
    const bool ta = rule->node->attributes.transpose_a;
    const bool tb = rule->node->attributes.transpose_b;
    struct value *dy = define_cast(graph, rule->dy[0], a->type.dtype);

    if (rule->wanted[0]) {
        const enum dtype dtype = grad_cotangent_dtype(a);
        rule->dx[0] = ta ? build_matmul(graph, b, dy, tb, true, dtype)
                         : build_matmul(graph, dy, b, false, !tb, dtype);
    }
    if (rule->wanted[1]) {
        const enum dtype dtype = grad_cotangent_dtype(b);
        rule->dx[1] = tb ? build_matmul(graph, dy, a, true, ta, dtype)
                         : build_matmul(graph, a, dy, !ta, false, dtype);
    }
}

/* The accumulator is added where keep says so, and gets the cotangent there. */
void grad_matmul(struct grad_rule *rule)
{
    give_product(rule);
    if (rule->node->n_inputs > 2 && rule->wanted[2]) {
        struct graph *graph = rule->graph;
        struct value *dy = rule->dy[0];
        rule->dx[2] = rule->node->n_inputs == 3
                          ? dy
                          : build_select(graph, rule->node->inputs[3], dy,
                                         grad_zero_scalar(graph, dy));
    }
}

/* The dimensions of x that a reduction over `n` axes keeps. */
static void kept_axes(const struct attributes *attributes, int rank, int *kept)
{
    int n = 0;
    for (int axis = 0; axis < rank; axis++) {
        bool is_reduced = false;
        for (int i = 0; i < attributes->n_axes; i++) {
            is_reduced = is_reduced || attributes->axes[i] == axis;
        }
        if (!is_reduced) {
            kept[n++] = axis;
        }
    }
}

/* g, of the reduction's result, spread over x again. */
static struct value *spread_back(struct grad_rule *rule, struct value *g)
{
    const struct value *x = rule->node->inputs[0];
    int kept[SHAPE_MAX_RANK] = {0};
    kept_axes(&rule->node->attributes, x->type.shape.rank, kept);
    return build_broadcast(rule->graph, g, x->type.shape, kept, grad_placement(x, g));
}

/* Each element counted once: dx = dy, spread. */
void grad_reduce_sum(struct grad_rule *rule)
{
    rule->dx[0] = spread_back(rule, rule->dy[0]);
}

/* The largest element gets all; equal ones share. */
void grad_reduce_max(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *x = rule->node->inputs[0];
    /* The largest element at every place that was compared. */
    struct value *top = spread_back(rule, rule->node->outputs[0]);
    struct value *is_top =
        build_cast(graph, build_compare(graph, COMPARE_EQ, x, top), x->type.dtype);
    struct value *count = build_reduce_sum(graph, is_top, rule->node->attributes.n_axes,
                                           rule->node->attributes.axes);
    struct value *share = build_div(graph, rule->dy[0], count);
    rule->dx[0] = build_mul(graph, spread_back(rule, share), is_top);
}
