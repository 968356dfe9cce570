/*
 * define_attention - what attention means: all scores at once, [B, H, T, T]. The mask
 * comes from counting (iota) and first_key.
 */
#include "graph/define_attention.h"

#include "graph/build.h"
#include "graph/define_rules.h"

/*
 * Rows may be split (dimension 0) and heads (dimension 2), nothing else. Heads of q
 * that are split while those of k are not leave each rank a part of the R heads that
 * share one key-value head.
 */
struct define_attention_layout define_attention_layout_of(const struct define *define)
{
    const struct type *q = &define->inputs[0]->type; /* [B, T, H, K] */
    const struct type *k = &define->inputs[1]->type; /* [B, T, G, K] */
    struct define_attention_layout layout = {
        .B = q->shape.dim[0],
        .T = q->shape.dim[1],
        .H = q->shape.dim[2],
        .G = k->shape.dim[2],
        .K = q->shape.dim[3],
        .dtype = q->dtype,
        .math = define_math_dtype(q->dtype),
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

struct placement
define_attention_placement(const struct define_attention_layout *layout,
                           enum define_attention_form form, const struct value *like)
{
    /* Where B, T, G and R are; T is never split. */
    static const int dims[][4] = {
        [DEFINE_ATTENTION_HEADS] = {0, 1, 2, 2},
        [DEFINE_ATTENTION_ROWS] = {0, 2, 1, 2},
        [DEFINE_ATTENTION_SCORES] = {0, 3, 1, 2},
        [DEFINE_ATTENTION_LSE] = {0, 2, 1, 1},
    };
    struct placement placement = layout->groups;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        struct place *place = &placement.axis[axis];
        if (place->kind == PLACE_SPLIT) {
            place->dim = dims[form][place->dim];
        } else if (like != NULL) {
            place->kind = like->type.placement.axis[axis].kind;
        }
    }
    return placement;
}

/* `groups`, partial where x is. */
static struct placement grouped(const struct define_attention_layout *layout,
                                const struct value *x)
{
    struct placement placement = layout->groups;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (x->type.placement.axis[axis].kind == PLACE_PARTIAL) {
            placement.axis[axis].kind = PLACE_PARTIAL;
        }
    }
    return placement;
}

/* [B, T, H, K] -> [B, T, G, R, K] -> [B, G, R, T, K] -> [B, G, R * T, K] */
struct value *define_attention_rows(struct graph *graph,
                                    const struct define_attention_layout *layout,
                                    struct value *x)
{
    const int64_t split[5] = {layout->B, layout->T, layout->G, layout->R, layout->K};
    const int64_t merged[4] = {layout->B, layout->G, layout->R * layout->T, layout->K};
    const int axes[5] = {0, 2, 3, 1, 4};
    const struct placement placement =
        define_attention_placement(layout, DEFINE_ATTENTION_ROWS, x);
    x = build_reshape_placed(graph, x, type_shape(5, split), grouped(layout, x));
    x = build_transpose(graph, x, axes); /* [B, G, R, T, K] */
    return build_reshape_placed(graph, x, type_shape(4, merged), placement);
}

/* [B, G, R * T, K] -> [B, G, R, T, K] -> [B, T, G, R, K] -> [B, T, H, K] */
struct value *define_attention_heads(struct graph *graph,
                                     const struct define_attention_layout *layout,
                                     struct value *rows)
{
    const int64_t split[5] = {layout->B, layout->G, layout->R, layout->T, layout->K};
    const int64_t merged[4] = {layout->B, layout->T, layout->H, layout->K};
    const int axes[5] = {0, 3, 1, 2, 4};
    const struct placement apart =
        define_attention_placement(layout, DEFINE_ATTENTION_SCORES, rows);
    const struct placement placement =
        define_attention_placement(layout, DEFINE_ATTENTION_HEADS, rows);
    struct value *x = build_reshape_placed(graph, rows, type_shape(5, split), apart);
    x = build_transpose(graph, x, axes); /* [B, T, G, R, K] */
    return build_reshape_placed(graph, x, type_shape(4, merged), placement);
}

struct value *define_attention_keys(struct graph *graph, struct value *x)
{
    const int axes[4] = {0, 2, 1, 3};
    return build_transpose(graph, x, axes);
}

/* first_key[i] <= j <= i and i - j < window is low[i] <= j <= i. */
struct value *define_attention_low(struct graph *graph, struct value *first_key,
                                   int64_t window)
{
    struct value *low =
        build_max(graph, first_key, build_scalar(graph, DTYPE_I32, 0.0));
    if (window > 0) {
        struct value *token = build_iota(graph, first_key->type, 1);
        low = build_max(graph, low, build_shift(graph, token, 1.0 - (double)window));
    }
    return low;
}

/* Which keys each query sees: bool [B, T, n]. Keys after the query are numbered -1, to
 * need one comparison. */
static struct value *visible_keys(struct graph *graph, struct value *low,
                                  struct value *start, int64_t n)
{
    const int64_t *dim = low->type.shape.dim;
    const int64_t square_dims[2] = {dim[1], n}, mask_dims[3] = {dim[0], dim[1], n};
    const struct type square = type_make(DTYPE_I32, 2, square_dims);
    struct value *i = build_iota(graph, square, 0);
    struct value *j = build_iota(graph, square, 1);
    if (start != NULL) {
        j = build_add(graph, j, start);
    }
    struct value *j_or_none =
        build_select(graph, build_compare(graph, COMPARE_LE, j, i), j,
                     build_scalar(graph, DTYPE_I32, -1.0));
    const struct shape shape = type_shape(3, mask_dims);
    const struct placement placement = low->type.placement;
    const int low_axes[2] = {0, 1}, key_axes[2] = {1, 2};
    return build_compare(graph, COMPARE_GE,
                         build_broadcast(graph, j_or_none, shape, key_axes, placement),
                         build_broadcast(graph, low, shape, low_axes, placement));
}

/* s = scale q k^T; the mask is [B, T, n], the same for all heads. */
struct value *define_attention_masked(struct graph *graph,
                                      const struct define_attention_layout *layout,
                                      struct value *q, struct value *k,
                                      struct value *visible, double scale,
                                      struct value **mask)
{
    const int64_t n = k->type.shape.dim[2];
    const int64_t dims[5] = {layout->B, layout->G, layout->R, layout->T, n};
    const int mask_axes[3] = {0, 3, 4};
    /* [B, G, R * T, n] */
    struct value *s = build_matmul(graph, q, k, false, true, layout->math);
    s = build_reshape_placed(
        graph, build_scale(graph, s, scale), type_shape(5, dims),
        define_attention_placement(layout, DEFINE_ATTENTION_SCORES, NULL));
    *mask = define_spread(graph, visible, s, mask_axes);
    return build_select(
        graph, *mask, s,
        build_scalar(graph, layout->math, DEFINE_ATTENTION_HIDDEN_SCORE));
}

struct value *define_attention_scores(struct graph *graph,
                                      const struct define_attention_layout *layout,
                                      struct value *q, struct value *k,
                                      struct value *low, struct value *start,
                                      double scale, struct value **mask)
{
    struct value *visible = visible_keys(graph, low, start, k->type.shape.dim[2]);
    return define_attention_masked(graph, layout, q, k, visible, scale, mask);
}

struct value *define_attention_flat(struct graph *graph,
                                    const struct define_attention_layout *layout,
                                    struct value *scores)
{
    const int64_t dims[4] = {layout->B, layout->G, layout->R * layout->T,
                             scores->type.shape.dim[4]};
    return build_reshape_placed(
        graph, scores, type_shape(4, dims),
        define_attention_placement(layout, DEFINE_ATTENTION_ROWS, scores));
}

/* The largest visible score adds exp(0) = 1: a sum of 0 means that none is visible. */
struct value *define_attention_lse(struct graph *graph,
                                   const struct define_attention_layout *layout,
                                   struct value *top, struct value *sum,
                                   struct value **safe_sum)
{
    const int64_t dims[3] = {layout->B, layout->H, layout->T};
    struct value *zero = build_scalar(graph, layout->math, 0.0);
    struct value *sees = build_compare(graph, COMPARE_GT, sum, zero);
    *safe_sum = build_select(graph, sees, sum, build_scalar(graph, layout->math, 1.0));
    struct value *lse = build_add(graph, top, build_log(graph, *safe_sum));
    return build_reshape_placed(
        graph, build_select(graph, sees, lse, zero), type_shape(3, dims),
        define_attention_placement(layout, DEFINE_ATTENTION_LSE, NULL));
}

/*
 *     softmax(s) v    lse = log sum exp of the visible scores
 *
 * Softmax with the largest score taken off, which keeps exp in range. Weights are cast
 * to the operands' dtype before the product with v.
 */
struct value *define_attention_mix(struct graph *graph,
                                   const struct define_attention_layout *layout,
                                   struct value *scores, struct value *mask,
                                   struct value *v, struct value **lse)
{
    const int last = 4, row_axes[4] = {0, 1, 2, 3};
    /* The result does not depend on the shift. */
    struct value *top =
        build_stop_gradient(graph, build_reduce_max(graph, scores, 1, &last));
    struct value *e = build_exp(
        graph, build_sub(graph, scores, define_spread(graph, top, scores, row_axes)));
    /* Hidden scores of a row that sees nothing are its largest: exp gives 1 there. */
    e = build_select(graph, mask, e, build_scalar(graph, layout->math, 0.0));
    struct value *sum;
    *lse = define_attention_lse(graph, layout, top,
                                build_reduce_sum(graph, e, 1, &last), &sum);
    /* [B, G, R, T, n]; rows that see nothing divide 0 by 1. */
    struct value *p = build_div(graph, e, define_spread(graph, sum, e, row_axes));
    p = define_cast(graph, define_attention_flat(graph, layout, p), layout->dtype);
    return define_attention_heads(
        graph, layout, build_matmul(graph, p, v, false, false, layout->dtype));
}

/* out = softmax(mask(scale q k^T)) v, and lse. */
void define_attention(struct define *define)
{
    if (define->is_tiled) {
        define_attention_tiled(define);
        return;
    }
    struct graph *graph = define->graph;
    const struct define_attention_layout layout = define_attention_layout_of(define);
    /* q [B, G, R * T, K]; k, v [B, G, T, K] */
    struct value *q = define_attention_rows(graph, &layout, define->inputs[0]);
    struct value *k = define_attention_keys(graph, define->inputs[1]);
    struct value *v = define_attention_keys(graph, define->inputs[2]);
    struct value *low =
        define_attention_low(graph, define->inputs[3], define->attributes->window);
    struct value *mask;
    struct value *s = define_attention_scores(graph, &layout, q, k, low, NULL,
                                              define->attributes->value, &mask);
    define->outputs[0] =
        define_attention_mix(graph, &layout, s, mask, v, &define->outputs[1]);
}
