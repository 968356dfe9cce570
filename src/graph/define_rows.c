/*
 * define_rows - what the composites mean that work on the rows of a tensor: the norm,
 * the rotation by position, the embedding.
 */
#include <math.h>

#include "graph/build.h"
#include "graph/define_rules.h"

/* axes {0, 1, .., rank - 2}: what a reduction of the last dimension leaves. */
static const int leading_axes[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5};

/* y = x * r * g, r = (mean(x^2) + eps)^(-1/2) over the last dimension. */
void define_rms_norm(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *x = define_widen(graph, define->inputs[0]); /* [..., K] */
    const int last = x->type.shape.rank - 1;
    ASSERT(last >= 0);

    /* [...], as mean and r. */
    struct value *sum = build_reduce_sum(graph, build_mul(graph, x, x), 1, &last);
    struct value *mean = build_scale(graph, sum, 1.0 / (double)x->type.shape.dim[last]);
    struct value *r =
        build_rsqrt(graph, build_shift(graph, mean, define->attributes->eps));
    struct value *y =
        build_mul(graph, x, define_spread(graph, r, x, leading_axes)); /* [..., K] */

    if (define->n_inputs == 2) {
        struct value *g =
            define_cast(graph, define->inputs[1], x->type.dtype); /* [K] */
        if (define->attributes->adds_one) {
            g = build_shift(graph, g, 1.0);
        }
        y = build_mul(graph, y, define_spread(graph, g, y, &last));
    }
    define->outputs[0] = define_cast(graph, y, define->inputs[0]->type.dtype);
}

/*
 * theta^(-2d/K) / factor for d = 0 .. pairs - 1, as [pairs] of `dtype`. Powers are
 * taken in f64 and rounded once: an error here is multiplied by the position.
 */
static struct value *rope_frequencies(struct graph *graph,
                                      const struct attributes *attributes, int64_t K,
                                      enum dtype dtype)
{
    struct value *d = build_iota(graph, type_make(DTYPE_F64, 1, &attributes->pairs), 0);
    const double exponent = -2.0 / (double)K * log(attributes->theta);
    struct value *power = build_exp(graph, build_scale(graph, d, exponent));
    return define_cast(graph, build_scale(graph, power, 1.0 / attributes->factor),
                       dtype);
}

/*
 * The angle of each pair at each token, spread over the heads: like part [B, T, H, P].
 */
static struct value *rope_angles(struct graph *graph, struct define *define,
                                 const struct value *part)
{
    struct value *position = define->inputs[1]; /* [B, T] */
    const struct shape *whole = &define->inputs[0]->type.shape;
    const enum dtype dtype = part->type.dtype;
    const int64_t dims[3] = {whole->dim[0], whole->dim[1], define->attributes->pairs};
    const struct shape shape = type_shape(3, dims); /* [B, T, P] */

    struct value *frequency =
        rope_frequencies(graph, define->attributes, whole->dim[3], dtype);
    const int token_axes[2] = {0, 1};
    const int pair_axis = 2;
    struct value *at = build_broadcast(graph, define_cast(graph, position, dtype),
                                       shape, token_axes, position->type.placement);
    struct value *angle =
        build_mul(graph, at, define_spread(graph, frequency, at, &pair_axis));
    return angle;
}

/* x[..., d] turns with x[..., d + K/2]; in f32 (f64), one rounding at the end. */
void define_rope(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *x = define_widen(graph, define->inputs[0]); /* [B, T, H, K] */
    const int64_t half = x->type.shape.dim[3] / 2;
    const int64_t pairs = define->attributes->pairs;
    ASSERT(1 <= pairs && pairs <= half && x->type.shape.dim[3] == 2 * half);

    /* a and b [B, T, H, P]: first and second element of each pair. */
    struct value *a = build_slice_axis(graph, x, 3, 0, pairs);
    struct value *b = build_slice_axis(graph, x, 3, half, half + pairs);
    struct value *angle = rope_angles(graph, define, a);
    const int axes[3] = {0, 1, 3};
    struct value *cosine = define_spread(graph, build_cos(graph, angle), a, axes);
    struct value *sine = define_spread(graph, build_sin(graph, angle), a, axes);

    /* Along K: turned first halves, what stays of them, turned second halves, what
     * stays. */
    struct value *parts[4];
    int n = 0;
    parts[n++] =
        build_sub(graph, build_mul(graph, a, cosine), build_mul(graph, b, sine));
    if (pairs < half) {
        parts[n++] = build_slice_axis(graph, x, 3, pairs, half);
    }
    parts[n++] =
        build_add(graph, build_mul(graph, b, cosine), build_mul(graph, a, sine));
    if (pairs < half) {
        parts[n++] = build_slice_axis(graph, x, 3, half + pairs, 2 * half);
    }
    define->outputs[0] = define_cast(graph, build_concat(graph, parts, n, 3),
                                     define->inputs[0]->type.dtype);
}

/* The rank's first row in a table split by rows, as an i32 scalar; NULL: it is whole.
 * All ranks that share the rows must look up the same ids. */
static struct value *first_local_row(struct graph *graph, const struct value *table,
                                     const struct value *ids)
{
    const struct placement *placement = &table->type.placement;
    struct value *first = NULL;
    for (int a = 0; a < MESH_N_AXES; a++) {
        if (placement->axis[a].kind != PLACE_SPLIT || placement->axis[a].dim != 0) {
            continue;
        }
        ASSERT(ids->type.placement.axis[a].kind == PLACE_SAME);
        int64_t stride = table->type.shape.dim[0]; /* rows from one block to the next */
        for (int b = 0; b < MESH_N_AXES; b++) {
            if (b != a && placement->axis[b].kind == PLACE_SPLIT &&
                placement->axis[b].dim == 0 && placement_is_major(a, b)) {
                stride *= graph->mesh.size[b];
            }
        }
        struct value *start = build_scale(
            graph, build_axis_index(graph, (enum mesh_axis)a), (double)stride);
        first = first == NULL ? start : build_add(graph, first, start);
    }
    return first;
}

/* The comparison is with the ids as given: local numbers of other ranks' rows could be
 * equal to `dropped` by chance. */
struct value *define_local_ids(struct graph *graph, const struct value *table,
                               struct value *ids, int64_t dropped)
{
    struct value *local = ids;
    struct value *first = first_local_row(graph, table, ids);
    if (first != NULL) {
        local = build_sub(graph, ids, first);
    }
    if (dropped >= 0) {
        struct value *row = build_scalar(graph, DTYPE_I32, (double)dropped);
        struct value *is_dropped = build_compare(graph, COMPARE_EQ, ids, row);
        local = build_select(graph, is_dropped, build_scalar(graph, DTYPE_I32, -1.0),
                             local);
    }
    return local;
}

/* Where the vocabulary is split, the result is partial: one rank has the row. */
void define_embed(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *table = define->inputs[0];
    struct value *ids = define_local_ids(graph, table, define->inputs[1], -1);
    struct value *rows = build_gather_rows(graph, table, ids, -1);
    if (define->attributes->value != 1.0) {
        rows = build_scale(graph, define_widen(graph, rows), define->attributes->value);
    }
    define->outputs[0] = define_cast(graph, rows, table->type.dtype);
}
