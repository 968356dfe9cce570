/*
 * define_attention_tiled - attention and its gradient with a loop over blocks of keys,
 * for engines without a kernel: memory grows with T, not with T * T.
 *
 * Forward (Milakov and Gimelshein 2018; Dao et al. 2022): with the largest score so far
 * m, the sum of exponentials l and weighted values a, a block with scores s changes
 * them to
 *
 *     m' = max(m, max s)    l' = l exp(m - m') + sum exp(s - m')
 *     a' = a exp(m - m') + exp(s - m') v
 *
 * Backward, from lse and delta = sum(dout * out): p = exp(s - lse), dv = p^T dout, ds =
 * p (dout v^T - delta) scale, dq += ds k, dk = ds^T q. Keys are padded to whole blocks;
 * none of the added ones is visible, as all come after the last query.
 */
#include "graph/build.h"
#include "graph/define_attention.h"
#include "graph/define_rules.h"

enum { BLOCK_KEYS = 256 };

/* One iteration: the body's graph and its arguments. */
struct block {
    struct graph *graph;
    const struct define_attention_layout *layout;
    struct value *start;     /* number of the block's first key */
    struct value *q, *k, *v; /* q rows, and this block's keys and values */
    struct value *low;       /* first key that each query sees, i32 [B, T] */
    double scale;            /* of the scores */
};

/* At least two blocks where T allows it, so that small tests go through the loop. */
static int64_t block_keys(int64_t T)
{
    return base_min(BLOCK_KEYS, base_div_up(T, 2));
}

/* [B, T, G, K] -> [B, G, whole blocks, K] */
static struct value *padded_keys(struct graph *graph, struct value *x, int64_t T)
{
    const int64_t missing = base_round_up(T, block_keys(T)) - T;
    const int64_t before[4] = {0}, after[4] = {0, 0, missing, 0};
    x = define_attention_keys(graph, x);
    return missing == 0 ? x : build_pad(graph, x, before, after);
}

/* The body's arguments behind the carries: q, keys, values, low. */
static struct block block_begin(struct graph *body,
                                const struct define_attention_layout *layout,
                                struct value *iteration,
                                struct value *const *invariants, double scale)
{
    const int64_t n = block_keys(layout->T);
    struct block block = {.graph = body, .layout = layout, .scale = scale};
    block.start = build_scale(body, iteration, (double)n);
    block.q = define_argument(body, "q", invariants[0]);
    struct value *keys = define_argument(body, "k", invariants[1]);
    struct value *values = define_argument(body, "v", invariants[2]);
    block.low = define_argument(body, "low", invariants[3]);
    block.k = build_dynamic_slice(body, keys, block.start, 2, n);
    block.v = build_dynamic_slice(body, values, block.start, 2, n);
    return block;
}

/* Per row [B, G, R, T] -> [B, G, R * T] spread over `like` [B, G, R * T, any]. */
static struct value *spread_rows(struct graph *graph,
                                 const struct define_attention_layout *layout,
                                 struct value *x, const struct value *like)
{
    const int64_t dims[3] = {layout->B, layout->G, layout->R * layout->T};
    const struct placement placement =
        define_attention_placement(layout, DEFINE_ATTENTION_ROWS, x);
    const int axes[3] = {0, 1, 2};
    x = build_reshape_placed(graph, x, type_shape(3, dims), placement);
    return build_broadcast(graph, x, like->type.shape, axes, placement);
}

/* Carries: m and l [B, G, R, T], a [B, G, R * T, K], all in f32 (f64). */
static struct graph *forward_body(const struct define_attention_layout *layout,
                                  const struct mesh *mesh, struct value *const *carries,
                                  struct value *const *invariants, double scale)
{
    struct graph *body = graph_create(mesh);
    const int last = 4, row_axes[4] = {0, 1, 2, 3};
    struct value *iteration = build_input(body, "iteration", type_scalar(DTYPE_I32));
    struct value *top = define_argument(body, "top", carries[0]);
    struct value *sum = define_argument(body, "sum", carries[1]);
    struct value *acc = define_argument(body, "acc", carries[2]);
    const struct block b = block_begin(body, layout, iteration, invariants, scale);

    struct value *mask;
    struct value *s =
        define_attention_scores(body, layout, b.q, b.k, b.low, b.start, b.scale, &mask);
    struct value *new_top = build_max(body, top, build_reduce_max(body, s, 1, &last));
    /* exp(m - m') [B, G, R, T]. Before any visible key l and a are 0, whatever it
     * is. */
    struct value *shrink = build_exp(body, build_sub(body, top, new_top));
    struct value *e =
        build_exp(body, build_sub(body, s, define_spread(body, new_top, s, row_axes)));
    e = build_select(body, mask, e, build_scalar(body, layout->math, 0.0));
    sum = build_add(body, build_mul(body, sum, shrink),
                    build_reduce_sum(body, e, 1, &last));

    struct value *p =
        define_cast(body, define_attention_flat(body, layout, e), layout->dtype);
    /* [B, G, R * T, K] */
    struct value *added = build_matmul(body, p, b.v, false, false, layout->math);
    acc = build_mul(body, acc, spread_rows(body, layout, shrink, acc));
    graph_add_output(body, "top", new_top, NULL);
    graph_add_output(body, "sum", sum, NULL);
    graph_add_output(body, "acc", build_add(body, acc, added), NULL);
    return body;
}

/* A constant per row [B, G, R, T], or [B, G, R * T, K]. */
static struct value *start_rows(struct graph *graph,
                                const struct define_attention_layout *layout,
                                double value)
{
    const int64_t dims[4] = {layout->B, layout->G, layout->R, layout->T};
    struct type type = type_make(layout->math, 4, dims);
    type.placement = define_attention_placement(layout, DEFINE_ATTENTION_SCORES, NULL);
    return build_constant(graph, type, value);
}

/* Zeros; partial where `like` is. */
static struct value *start_acc(struct graph *graph,
                               const struct define_attention_layout *layout,
                               const struct value *like)
{
    const int64_t dims[4] = {layout->B, layout->G, layout->R * layout->T, layout->K};
    struct type type = type_make(layout->math, 4, dims);
    type.placement = define_attention_placement(layout, DEFINE_ATTENTION_ROWS, like);
    return build_constant(graph, type, 0.0);
}

/* The last one may hold keys that padding added. */
static int n_blocks(const struct define_attention_layout *layout)
{
    return (int)base_div_up(layout->T, block_keys(layout->T));
}

/* Divides by the sum once, at the end: a / l. */
void define_attention_tiled(struct define *define)
{
    struct graph *graph = define->graph;
    const struct define_attention_layout layout = define_attention_layout_of(define);
    const double scale = define->attributes->value;
    /* m, l and a, before any key. */
    struct value *carries[3] = {
        start_rows(graph, &layout, DEFINE_ATTENTION_HIDDEN_SCORE),
        start_rows(graph, &layout, 0.0),
        start_acc(graph, &layout, NULL),
    };
    struct value *invariants[4] = {
        define_attention_rows(graph, &layout, define->inputs[0]),
        padded_keys(graph, define->inputs[1], layout.T),
        padded_keys(graph, define->inputs[2], layout.T),
        define_attention_low(graph, define->inputs[3], define->attributes->window),
    };
    struct graph *body =
        forward_body(&layout, &graph->mesh, carries, invariants, scale);
    const struct node *loop = build_repeat(graph, n_blocks(&layout), body, carries, 3,
                                           NULL, 0, invariants, 4, "blocks");
    struct value *sum;
    define->outputs[1] =
        define_attention_lse(graph, &layout, loop->outputs[0], loop->outputs[1], &sum);
    struct value *out = loop->outputs[2]; /* [B, G, R * T, K] */
    out = build_div(graph, out, spread_rows(graph, &layout, sum, out));
    define->outputs[0] =
        define_attention_heads(graph, &layout, define_cast(graph, out, layout.dtype));
}

/* Invariants behind low: dout rows, lse and delta [B, G, R, T]. Results: dk and dv. */
static struct graph *backward_body(const struct define_attention_layout *layout,
                                   const struct mesh *mesh,
                                   struct value *const *carries,
                                   struct value *const *invariants, double scale)
{
    struct graph *body = graph_create(mesh);
    const int row_axes[4] = {0, 1, 2, 3};
    struct value *iteration = build_input(body, "iteration", type_scalar(DTYPE_I32));
    struct value *dq = define_argument(body, "dq", carries[0]);
    const struct block b = block_begin(body, layout, iteration, invariants, scale);
    struct value *dout = define_argument(body, "dout", invariants[4]);
    struct value *lse = define_argument(body, "lse", invariants[5]);
    struct value *delta = define_argument(body, "delta", invariants[6]);

    struct value *mask;
    struct value *s =
        define_attention_scores(body, layout, b.q, b.k, b.low, b.start, b.scale, &mask);
    struct value *p =
        build_exp(body, build_sub(body, s, define_spread(body, lse, s, row_axes)));
    p = build_select(body, mask, p, build_scalar(body, layout->math, 0.0));
    p = define_attention_flat(body, layout, p); /* [B, G, R * T, n] */
    /* [B, G, n, K]: the sum over the R query heads of a group is in the product. */
    struct value *dv = build_matmul(body, define_cast(body, p, layout->dtype), dout,
                                    true, false, layout->dtype);
    /* [B, G, R * T, n] */
    struct value *dp = build_matmul(body, dout, b.v, false, true, layout->math);
    struct value *ds = build_sub(body, dp, spread_rows(body, layout, delta, dp));
    ds = build_scale(body, build_mul(body, ds, p), b.scale);
    ds = define_cast(body, ds, layout->dtype);
    dq = build_add(body, dq, build_matmul(body, ds, b.k, false, false, layout->math));
    graph_add_output(body, "dq", dq, NULL);
    graph_add_output(body, "dk",
                     build_matmul(body, ds, b.q, true, false, layout->dtype), NULL);
    graph_add_output(body, "dv", dv, NULL);
    return body;
}

/* delta = sum over K of dout * out, both as rows: [B, G, R, T]. */
static struct value *row_delta(struct graph *graph,
                               const struct define_attention_layout *layout,
                               struct value *dout, struct value *out)
{
    const int last = 3;
    const int64_t dims[4] = {layout->B, layout->G, layout->R, layout->T};
    struct value *delta = build_reduce_sum(
        graph, build_mul(graph, define_widen(graph, dout), define_widen(graph, out)), 1,
        &last);
    return build_reshape_placed(
        graph, delta, type_shape(4, dims),
        define_attention_placement(layout, DEFINE_ATTENTION_SCORES, delta));
}

/* Blocks [n, B, G, keys, K] -> [B, T, G, K] */
static struct value *join_blocks(struct graph *graph,
                                 const struct define_attention_layout *layout,
                                 struct value *blocks)
{
    const int order[5] = {1, 2, 0, 3, 4}, keys_axes[4] = {0, 2, 1, 3};
    const int64_t dims[4] = {layout->B, layout->G,
                             blocks->type.shape.dim[0] * blocks->type.shape.dim[3],
                             layout->K};
    struct value *x = build_transpose(graph, blocks, order);
    /* [B, G, n * keys, K] */
    x = build_reshape(graph, x, type_shape(4, dims));
    if (dims[2] > layout->T) {
        x = build_slice_axis(graph, x, 2, 0, layout->T);
    }
    return build_transpose(graph, x, keys_axes);
}

/* dq is summed over the blocks in a carry; dk and dv of a block are complete after its
 * iteration, so they are stacked. */
void define_attention_tiled_grad(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *const *x = define->inputs; /* q, k, v, first_key, out, lse, dout */
    const struct define_attention_layout layout = define_attention_layout_of(define);
    const int64_t row_dims[4] = {layout.B, layout.G, layout.R, layout.T};
    struct value *dout = define_attention_rows(graph, &layout, x[6]);
    struct value *out = define_attention_rows(graph, &layout, x[4]);
    struct value *invariants[7] = {
        define_attention_rows(graph, &layout, x[0]),
        padded_keys(graph, x[1], layout.T),
        padded_keys(graph, x[2], layout.T),
        define_attention_low(graph, x[3], define->attributes->window),
        dout,
        build_reshape_placed(
            graph, x[5], type_shape(4, row_dims),
            define_attention_placement(&layout, DEFINE_ATTENTION_SCORES, NULL)),
        row_delta(graph, &layout, dout, out),
    };
    struct value *carry = start_acc(graph, &layout, dout);
    struct graph *body = backward_body(&layout, &graph->mesh, &carry, invariants,
                                       define->attributes->value);
    const struct node *loop = build_repeat(graph, n_blocks(&layout), body, &carry, 1,
                                           NULL, 0, invariants, 7, "blocks");
    struct value *dq = define_cast(graph, loop->outputs[0], layout.dtype);
    define->outputs[0] = define_attention_heads(graph, &layout, dq);
    define->outputs[1] = join_blocks(graph, &layout, loop->outputs[1]);
    define->outputs[2] = join_blocks(graph, &layout, loop->outputs[2]);
}
