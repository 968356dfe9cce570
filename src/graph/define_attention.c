/*
 * define_attention - what attention means: all scores at once, [B, H, T, T].
 *
 * With R = H / G query heads per key-value head, queries become rows [B, G, R * T, K] of
 * one product with the keys [B, G, T, K]; keys and values are never repeated. The mask comes
 * from counting (iota) and first_key. Hidden scores are a large negative number, not
 * minus infinity, so that rows that see nothing stay finite: their weights, log-sum-exp and
 * gradients are zero.
 */
#include "graph/build.h"
#include "graph/define_rules.h"

static const double HIDDEN_SCORE = -1e30;

/* Lengths, and where the query heads are split: on G where the keys are too, else on R. */
struct layout {
    int64_t B, T, H, G, R, K;
    struct placement groups; /* of [B, T, G, R, K] */
};

static struct layout layout_of(const struct define *define)
{
    const struct type *q = &define->inputs[0]->type; /* [B, T, H, K] */
    const struct type *k = &define->inputs[1]->type; /* [B, T, G, K] */
    struct layout layout = {
        .B = q->shape.dim[0],
        .T = q->shape.dim[1],
        .H = q->shape.dim[2],
        .G = k->shape.dim[2],
        .K = q->shape.dim[3],
        .groups = q->placement,
    };
    ASSERT(layout.G > 0 && layout.H % layout.G == 0);
    layout.R = layout.H / layout.G;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        struct place *place = &layout.groups.axis[axis];
        ASSERT(place->kind != PLACE_SPLIT || place->dim == 0 || place->dim == 2);
        if (place->kind == PLACE_SPLIT && place->dim == 2 &&
            k->placement.axis[axis].kind != PLACE_SPLIT) {
            ASSERT(layout.G == 1);
            place->dim = 3;
        }
    }
    return layout;
}

/* `placement` with splits of dimension i moved to dimension to[i]. */
static struct placement moved(struct placement placement, const int *to)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement.axis[axis].kind == PLACE_SPLIT) {
            placement.axis[axis].dim = to[placement.axis[axis].dim];
        }
    }
    return placement;
}

/* [B, T, H, K] -> [B, G, R * T, K] */
static struct value *rows_from_heads(struct graph *graph, const struct layout *layout,
                                     struct value *x)
{
    const int64_t grouped[5] = {layout->B, layout->T, layout->G, layout->R, layout->K};
    const int64_t merged[4] = {layout->B, layout->G, layout->R * layout->T, layout->K};
    const int axes[5] = {0, 2, 3, 1, 4};
    const int to[5] = {0, 2, 1, 2, 3}; /* B, T, G, R, K; T is never split */
    x = build_reshape_placed(graph, x, type_shape(5, grouped), layout->groups);
    x = build_transpose(graph, x, axes); /* [B, G, R, T, K] */
    return build_reshape_placed(graph, x, type_shape(4, merged),
                                moved(layout->groups, to));
}

/* [B, G, R * T, K] -> [B, T, H, K] */
static struct value *heads_from_rows(struct graph *graph, const struct layout *layout,
                                     struct value *x)
{
    const int64_t split[5] = {layout->B, layout->G, layout->R, layout->T, layout->K};
    const int64_t merged[4] = {layout->B, layout->T, layout->H, layout->K};
    const int axes[5] = {0, 3, 1, 2, 4};
    const int to[5] = {0, 3, 1, 2, 4};    /* B, T, G, R, K in [B, G, R, T, K] */
    const int heads[5] = {0, 1, 2, 2, 3}; /* and in [B, T, H, K] */
    x = build_reshape_placed(graph, x, type_shape(5, split), moved(layout->groups, to));
    x = build_transpose(graph, x, axes); /* [B, T, G, R, K] */
    return build_reshape_placed(graph, x, type_shape(4, merged),
                                moved(layout->groups, heads));
}

/*
 * Which keys each query sees: bool [B, T, T]. first_key[i] <= j <= i and i - j < window
 * is low[i] <= j <= i with low = max(first_key, i - window + 1, 0); keys after i are
 * numbered -1 to need one comparison.
 */
static struct value *visible_keys(struct graph *graph, const struct layout *layout,
                                  struct value *first_key, int64_t window)
{
    const int64_t square_dims[2] = {layout->T, layout->T};
    const int64_t mask_dims[3] = {layout->B, layout->T, layout->T};
    const struct type square = type_make(DTYPE_I32, 2, square_dims);
    struct value *i = build_iota(graph, square, 0);
    struct value *j = build_iota(graph, square, 1);
    struct value *j_or_none =
        build_select(graph, build_compare(graph, COMPARE_LE, j, i), j,
                     build_scalar(graph, DTYPE_I32, -1.0));

    struct value *low =
        build_max(graph, first_key, build_scalar(graph, DTYPE_I32, 0.0));
    if (window > 0) {
        struct value *token = build_iota(graph, first_key->type, 1);
        low = build_max(graph, low,
                        build_shift(graph, token, 1.0 - (double)window)); /* [B, T] */
    }
    const struct shape shape = type_shape(3, mask_dims);
    const struct placement placement = first_key->type.placement;
    const int low_axes[2] = {0, 1}, key_axes[2] = {1, 2};
    return build_compare(graph, COMPARE_GE,
                         build_broadcast(graph, j_or_none, shape, key_axes, placement),
                         build_broadcast(graph, low, shape, low_axes, placement));
}

/* Softmax over the visible keys of scores [B, G, R, T, T]; lse [B, G, R, T]. */
static struct value *masked_softmax(struct graph *graph, struct value *scores,
                                    struct value *visible, struct value **lse)
{
    const enum dtype dtype = scores->type.dtype;
    const int last = 4, mask_axes[3] = {0, 3, 4}, row_axes[4] = {0, 1, 2, 3};
    struct value *mask = define_spread(graph, visible, scores, mask_axes);
    struct value *zero = build_scalar(graph, dtype, 0.0);
    struct value *s =
        build_select(graph, mask, scores, build_scalar(graph, dtype, HIDDEN_SCORE));
    /* The result does not depend on the shift. */
    struct value *top =
        build_stop_gradient(graph, build_reduce_max(graph, s, 1, &last));
    struct value *e =
        build_exp(graph, build_sub(graph, s, define_spread(graph, top, s, row_axes)));
    e = build_select(graph, mask, e, zero);

    /* The largest visible score adds exp(0) = 1: a sum of 0 means that none is. */
    struct value *sum = build_reduce_sum(graph, e, 1, &last);
    struct value *sees = build_compare(graph, COMPARE_GT, sum, zero);
    sum = build_select(graph, sees, sum, build_scalar(graph, dtype, 1.0));
    *lse =
        build_select(graph, sees, build_add(graph, top, build_log(graph, sum)), zero);
    return build_div(graph, e, define_spread(graph, sum, e, row_axes));
}

void define_attention(struct define *define)
{
    struct graph *graph = define->graph;
    const struct layout layout = layout_of(define);
    const enum dtype dtype = define->inputs[0]->type.dtype;
    const enum dtype math = define_math_dtype(dtype);
    const int keys_axes[4] = {0, 2, 1, 3};
    struct value *q = rows_from_heads(graph, &layout, define->inputs[0]);
    struct value *k = build_transpose(graph, define->inputs[1], keys_axes);
    struct value *v = build_transpose(graph, define->inputs[2], keys_axes);

    const int64_t rows = layout.R * layout.T;
    const int64_t wide_dims[5] = {layout.B, layout.G, layout.R, layout.T, layout.T};
    const int64_t flat_dims[4] = {layout.B, layout.G, rows, layout.T};
    const int64_t lse_dims[3] = {layout.B, layout.H, layout.T};
    const int in_wide[5] = {0, 3, 1, 2, 4};  /* B, T, G, R, K in [B, G, R, T, T] */
    const int in_flat[5] = {0, 2, 1, 2, 3};  /* in [B, G, R * T, T] */
    const int in_heads[5] = {0, 2, 1, 1, 3}; /* in [B, H, T] */

    struct value *scores = build_matmul(graph, q, k, false, true, math);
    scores = build_scale(graph, scores, define->attributes->value);
    scores = build_reshape_placed(graph, scores, type_shape(5, wide_dims),
                                  moved(layout.groups, in_wide));
    struct value *visible =
        visible_keys(graph, &layout, define->inputs[3], define->attributes->window);
    struct value *lse;
    struct value *p = masked_softmax(graph, scores, visible, &lse);
    p = build_reshape_placed(graph, p, type_shape(4, flat_dims),
                             moved(layout.groups, in_flat));
    struct value *out =
        build_matmul(graph, define_cast(graph, p, dtype), v, false, false, dtype);
    define->outputs[0] = heads_from_rows(graph, &layout, out);
    define->outputs[1] = build_reshape_placed(graph, lse, type_shape(3, lse_dims),
                                              moved(layout.groups, in_heads));
}
