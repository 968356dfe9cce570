/*
 * define_loss_head - what the loss head means: all logits at once, [C, V], and the gradient
 * written out by hand, for an upstream gradient of 1.
 *
 *     z = cap tanh(h . table^T / cap)      dz = (softmax(z) - onehot(target)) weight
 *     loss = log sum exp z - z[target]     dh = dz (1 - (z / cap)^2) . table
 *
 * Where the table is split by vocabulary, maximum, sum and target logit are combined over
 * that axis, and the gradient of the hidden rows is partial there.
 */
#include "graph/build.h"
#include "graph/define_rules.h"

enum { HIDDEN, TABLE, LOSS_ROWS, TARGETS, WEIGHT, ACC, KEEP };

/* Softmax statistics of logits z [C, V]. */
struct statistics {
    struct value *exponentials; /* [C, V] exp(z - max) */
    struct value *sum;          /* [C] */
    struct value *lse;          /* [C] */
};

static const int row_axis = 0, vocabulary_axis = 1;

/* [C] over axes where the vocabulary is split: what the ranks hold, combined. */
static struct value *combine(struct graph *graph, struct value *x,
                             const struct value *logits, enum reduce_kind reduce)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = logits->type.placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == vocabulary_axis) {
            x = build_all_reduce(graph, x, (enum mesh_axis)axis, reduce);
        }
    }
    return x;
}

static struct statistics statistics_of(struct graph *graph, struct value *z)
{
    struct statistics s;
    struct value *top = build_reduce_max(graph, z, 1, &vocabulary_axis);
    top = combine(graph, top, z, REDUCE_MAX);
    s.exponentials =
        build_exp(graph, build_sub(graph, z, define_spread(graph, top, z, &row_axis)));
    s.sum = combine(graph, build_reduce_sum(graph, s.exponentials, 1, &vocabulary_axis),
                    z, REDUCE_SUM);
    s.lse = build_add(graph, top, build_log(graph, s.sum));
    return s;
}

/* bool [C, V]: column v is the target of row c; counts over the whole vocabulary. */
static struct value *target_mask(struct graph *graph, const struct value *z,
                                 struct value *targets)
{
    struct type type = z->type;
    type.dtype = DTYPE_I32;
    struct value *column = build_iota(graph, type, vocabulary_axis);
    return build_compare(graph, COMPARE_EQ, column,
                         define_spread(graph, targets, z, &row_axis));
}

/* d loss_sum / d raw logits [C, V]. */
static struct value *logit_gradient(struct graph *graph, struct value *z,
                                    const struct statistics *s, struct value *is_target,
                                    struct value *weight, double cap)
{
    const enum dtype dtype = z->type.dtype;
    struct value *p =
        build_div(graph, s->exponentials, define_spread(graph, s->sum, z, &row_axis));
    struct value *dz = build_sub(graph, p, build_cast(graph, is_target, dtype));
    dz = build_mul(graph, dz, define_spread(graph, weight, z, &row_axis));
    if (cap > 0.0) {
        struct value *t = build_scale(graph, z, 1.0 / cap);
        struct value *slope =
            build_shift(graph, build_scale(graph, build_mul(graph, t, t), -1.0), 1.0);
        dz = build_mul(graph, dz, slope);
    }
    return dz;
}

/* Placement of the gradient of rows that `dh` [C, D] is added to: split as they are, and
 * partial where dh is a part of the sum. */
static struct placement scattered(const struct value *hidden, const struct value *dh)
{
    struct placement placement = hidden->type.placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement.axis[axis].kind == PLACE_SAME &&
            dh->type.placement.axis[axis].kind != PLACE_SAME) {
            placement =
                placement_with(placement, (enum mesh_axis)axis, PLACE_PARTIAL, 0);
        }
    }
    return placement;
}

static void define_gradients(struct define *define, struct value *h, struct value *dz)
{
    struct graph *graph = define->graph;
    struct value *hidden = define->inputs[HIDDEN];
    struct value *table = define->inputs[TABLE];
    dz = define_cast(graph, dz, hidden->type.dtype);

    struct value *dh = build_matmul(graph, dz, table, false, false, hidden->type.dtype);
    struct type type = hidden->type;
    type.placement = scattered(hidden, dh);
    define->outputs[3] =
        build_scatter_add_rows(graph, build_constant(graph, type, 0.0),
                               define->inputs[LOSS_ROWS], dh, NULL, -1);

    const enum dtype math = define_math_dtype(hidden->type.dtype);
    if (define->n_inputs > ACC) {
        struct value *keep = define->n_inputs > KEEP ? define->inputs[KEEP] : NULL;
        define->outputs[4] =
            build_matmul_into(graph, dz, h, true, false, define->inputs[ACC], keep);
    } else {
        define->outputs[4] = build_matmul(graph, dz, h, true, false, math);
    }
}

void define_loss_head(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *hidden = define->inputs[HIDDEN]; /* [N, D] */
    const double cap = define->attributes->value;
    const enum dtype math = define_math_dtype(hidden->type.dtype);
    struct value *weight = define_cast(graph, define->inputs[WEIGHT], math);
    struct value *zero = build_scalar(graph, math, 0.0);

    struct value *h =
        build_gather_rows(graph, hidden, define->inputs[LOSS_ROWS], -1); /* [C, D] */
    struct value *z =
        build_matmul(graph, h, define->inputs[TABLE], false, true, math); /* [C, V] */
    if (cap > 0.0) {
        z = build_scale(graph, build_tanh(graph, build_scale(graph, z, 1.0 / cap)),
                        cap);
    }
    const struct statistics s = statistics_of(graph, z);
    struct value *is_target = target_mask(graph, z, define->inputs[TARGETS]);
    struct value *picked = build_select(graph, is_target, z, zero);
    struct value *target_logit = combine(
        graph, build_reduce_sum(graph, picked, 1, &vocabulary_axis), z, REDUCE_SUM);

    /* Rows of weight 0 are not looked at: whatever they hold, they give zeros. */
    struct value *counts = build_compare(graph, COMPARE_NE, weight, zero);
    struct value *loss =
        build_select(graph, counts, build_sub(graph, s.lse, target_logit), zero);
    struct value *weighted = build_mul(graph, define_cast(graph, loss, DTYPE_F64),
                                       define_cast(graph, weight, DTYPE_F64));
    define->outputs[0] = build_reduce_sum(graph, weighted, 1, &row_axis);
    define->outputs[1] = loss;
    define->outputs[2] = build_select(graph, counts, s.lse, zero);

    if (define->attributes->with_gradient) {
        define_gradients(define, h,
                         logit_gradient(graph, z, &s, is_target, weight, cap));
    }
}
