/*
 * build - one function per op: operands, attributes, result. Ops in the order of
 * ops.def.
 *
 * Shapes are written [B, T, D]; `same dtype` means that operands and result share it.
 * Elementwise ops take operands of equal shape, or one of them may be a scalar (rank
 * 0). Placement rules are stated where they are not plain: elementwise operands must
 * agree; partial values may only be added to partial ones, scaled by same ones, cast,
 * moved and reduced.
 */
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "graph/graph.h"

/* State of the job: kept by the engine between steps. `name` is unique in the graph. */
struct value *build_parameter(struct graph *graph, const char *name, struct type type,
                              bool is_trainable);

/*
 * A stacked parameter: type [n, ...] (or [n, m, ...] when nested), one name per slice.
 */
struct value *build_stacked_parameter(struct graph *graph, const char *name,
                                      const char *const *names, int n_names,
                                      struct type type, bool is_trainable);

/* Fed anew for each step, or donated state such as accumulators. */
struct value *build_input(struct graph *graph, const char *name, struct type type);

/* Every element is `value`. */
struct value *build_constant(struct graph *graph, struct type type, double value);
struct value *build_scalar(struct graph *graph, enum dtype dtype, double value);

/* i32 (or any dtype) counting along `axis`; where the type splits that dimension over
 * the mesh it counts globally. */
struct value *build_iota(struct graph *graph, struct type type, int axis);

/* u32 bits, random_bits(seed, purpose, step, global element index); seed, step: u32
 * scalars. */
struct value *build_random_bits(struct graph *graph, struct value *seed,
                                struct value *step, uint32_t purpose, struct type type);

/* i32 scalar: the rank's coordinate. (Its type says `same`; it is for local use.) */
struct value *build_axis_index(struct graph *graph, enum mesh_axis axis);

struct value *build_cast(struct graph *graph, struct value *x, enum dtype dtype);
struct value *build_bitcast(struct graph *graph, struct value *x, enum dtype dtype);
struct value *build_add(struct graph *graph, struct value *a, struct value *b);
struct value *build_sub(struct graph *graph, struct value *a, struct value *b);
struct value *build_mul(struct graph *graph, struct value *a, struct value *b);
struct value *build_div(struct graph *graph, struct value *a, struct value *b);
struct value *build_max(struct graph *graph, struct value *a, struct value *b);
struct value *build_exp(struct graph *graph, struct value *x);
struct value *build_log(struct graph *graph, struct value *x);
struct value *build_tanh(struct graph *graph, struct value *x);
struct value *build_sqrt(struct graph *graph, struct value *x);
struct value *build_rsqrt(struct graph *graph, struct value *x); /* x^(-1/2) */
struct value *build_cos(struct graph *graph, struct value *x);
struct value *build_sin(struct graph *graph, struct value *x);

/* bool */
struct value *build_compare(struct graph *graph, enum compare compare, struct value *a,
                            struct value *b);

/* condition bool; where true `a`, else `b`; each of the three may be a scalar. */
struct value *build_select(struct graph *graph, struct value *condition,
                           struct value *a, struct value *b);
struct value *build_is_finite(struct graph *graph, struct value *x); /* bool */
struct value *build_stop_gradient(struct graph *graph, struct value *x);

/* Identity that no pass merges or moves across (against common subexpressions). */
struct value *build_barrier(struct graph *graph, struct value *x);

/* x * value, x + value for a plain number. */
struct value *build_scale(struct graph *graph, struct value *x, double value);
struct value *build_shift(struct graph *graph, struct value *x, double value);

/*
 * a [..., M, K] (or [..., K, M] with transpose_a), b [..., K, N] (or [..., N, K] with
 * transpose_b), equal leading dimensions -> [..., M, N] of `dtype`; accumulates in f32
 * (f64 for f64). Operands have one dtype, or one is f32 and the other bf16 or f16. Both
 * contracted dimensions split over an axis: the result is partial.
 */
struct value *build_matmul(struct graph *graph, struct value *a, struct value *b,
                           bool transpose_a, bool transpose_b, enum dtype dtype);

/* As above, plus acc [..., M, N] of `dtype` where keep (bool scalar) is true; the
 * result takes the memory of acc. keep NULL: always. */
struct value *build_matmul_into(struct graph *graph, struct value *a, struct value *b,
                                bool transpose_a, bool transpose_b, struct value *acc,
                                struct value *keep);

/* x [..., K], weight [N, K] (as PyTorch's Linear) -> [..., N], dtype of x. */
struct value *build_linear(struct graph *graph, struct value *x, struct value *weight);

/* Over the given dimensions, which disappear. Sum over a split dimension: partial. */
struct value *build_reduce_sum(struct graph *graph, struct value *x, int n_axes,
                               const int *axes);
struct value *build_reduce_max(struct graph *graph, struct value *x, int n_axes,
                               const int *axes);

/*
 * Equal number of elements. A split dimension must be the first of those it merges
 * with; the split stays if nothing changes up to there, or else goes to the first
 * dimension longer than 1 that it becomes.
 */
struct value *build_reshape(struct graph *graph, struct value *x, struct shape shape);

/* As above, with the result's placement given where the rule cannot know it. */
struct value *build_reshape_placed(struct graph *graph, struct value *x,
                                   struct shape shape, struct placement placement);

/* Result dimension i is dimension axes[i] of x. */
struct value *build_transpose(struct graph *graph, struct value *x, const int *axes);

/*
 * Dimension i of x becomes dimension axes[i] (ascending) of `shape`; a dimension of
 * length 1 is stretched. `placement` may split new or stretched dimensions over axes
 * where x is the same; for the others it must say what x's placement becomes. Gradient:
 * the sum over new dimensions, so partial over such axes.
 */
struct value *build_broadcast(struct graph *graph, struct value *x, struct shape shape,
                              const int *axes, struct placement placement);

/* As above with the placement that follows from x alone. */
struct value *build_broadcast_like_x(struct graph *graph, struct value *x,
                                     struct shape shape, const int *axes);

/* x[start .. limit) in every dimension; whole along split ones. */
struct value *build_slice(struct graph *graph, struct value *x, const int64_t *start,
                          const int64_t *limit);

/* Along one dimension. */
struct value *build_slice_axis(struct graph *graph, struct value *x, int axis,
                               int64_t start, int64_t limit);

/* Zeros before and after, per dimension. */
struct value *build_pad(struct graph *graph, struct value *x, const int64_t *before,
                        const int64_t *after);
struct value *build_concat(struct graph *graph, struct value *const *parts, int n_parts,
                           int axis);

/* x[..., start .. start + size, ...] along `axis`; start i32 scalar, clamped into
 * range. */
struct value *build_dynamic_slice(struct graph *graph, struct value *x,
                                  struct value *start, int axis, int64_t size);

/* x with `part` written at start (clamped, as above) along `axis`; takes x's memory. */
struct value *build_dynamic_update_slice(struct graph *graph, struct value *x,
                                         struct value *part, struct value *start,
                                         int axis);

/* table [V, ...], ids i32 [S...] -> [S..., ...]; ids out of range give zeros. Rows with
 * id ignore_row get no gradient (-1: none such). */
struct value *build_gather_rows(struct graph *graph, struct value *table,
                                struct value *ids, int64_t ignore_row);

/*
 * acc [V, ...] with rows [S..., ...] added at ids i32 [S...], in order; ids out of
 * range and ignore_row are skipped. keep (bool scalar, NULL: always): acc starts at
 * zero where false. Takes the memory of acc.
 */
struct value *build_scatter_add_rows(struct graph *graph, struct value *acc,
                                     struct value *ids, struct value *rows,
                                     struct value *keep, int64_t ignore_row);

/*
 * n times the body. Body arguments (all made by build_input, in this order): iteration
 * i32 scalar, carries, one slice [...] of each stacked value [n, ...], invariants. Body
 * outputs: the carries' new values (same types), then stacked results. Node outputs:
 * final carries, then results [n, ...]. Operands: carries, stacked, invariants.
 * Autodiff wants repeats expanded first (rewrite_expand).
 */
struct node *build_repeat(struct graph *graph, int n_iterations,
                          struct graph *owned_body, struct value *const *carries,
                          int n_carries, struct value *const *stacked, int n_stacked,
                          struct value *const *invariants, int n_invariants,
                          const char *name);

/* Split along `axis` of x (over mesh_axis) -> same, the blocks in rank order. Gradient:
 * take_split of a same cotangent, reduce_scatter of a partial one. */
struct value *build_all_gather(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, int axis);

/* Partial -> split along `axis`, summed in rank order. Gradient: all_gather. */
struct value *build_reduce_scatter(struct graph *graph, struct value *x,
                                   enum mesh_axis mesh_axis, int axis);

/* Partial -> same (REDUCE_SUM, in rank order; gradient: identity), or for REDUCE_MAX
 * the largest of values that differ per rank (no gradient). */
struct value *build_all_reduce(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, enum reduce_kind reduce);

/*
 * Split along axes[0] -> split along axes[1]: [a/n, b] -> [a, b/n]. Its own transpose.
 */
struct value *build_all_to_all(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, int from_axis, int to_axis);

/* Same -> same: identity; a partial cotangent is summed by an all_reduce here. */
struct value *build_fan_out(struct graph *graph, struct value *x,
                            enum mesh_axis mesh_axis);

/* Same -> split along `axis`: each rank keeps its block. Gradient: all_gather. */
struct value *build_take_split(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, int axis);

/* ---- composites ---- */

/* A parameter as the model reads it: cast to dtype, then all_gather of dimension 0 over
 * MESH_SHARD where it is split there. Gradient: f32, reduce-scattered in f32. */
struct value *build_use_param(struct graph *graph, struct value *shard,
                              enum dtype dtype);

/* g + (keep ? acc : 0), in the memory of acc; keep: bool scalar. */
struct value *build_accumulate(struct graph *graph, struct value *acc,
                               struct value *keep, struct value *g);

/* f64 scalar: sum of squares, accumulated in f64. */
struct value *build_sum_squares(struct graph *graph, struct value *x);

/*
 * x [..., K], weight [K] or NULL, f32 inside, one rounding at the end:
 * y = x * rsqrt(mean(x^2) + eps) * g, g = weight, or 1 + weight with adds_one, or 1.
 * rms_norm_grad(x[, weight], dy) -> dx[, dweight (dtype of the weight)]; a frozen weight
 * (freezes_weight) has none.
 */
struct value *build_rms_norm(struct graph *graph, struct value *x, struct value *weight,
                             double eps, bool adds_one);

/*
 * x [B, T, H, K], position i32 [B, T]: element d < K/2 turns with d + K/2 by the angle
 * position / factor * theta^(-2d/K), d < pairs; others stay.
 * rope_grad(x, position, dy) -> dx (x is not read: the rotation is linear).
 */
struct value *build_rope(struct graph *graph, struct value *x, struct value *position,
                         double theta, double factor, int64_t pairs);

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). _grad(x, dy) -> dx */
struct value *build_gelu_tanh(struct graph *graph, struct value *x);
/* gelu_tanh(gate) * up. _grad(gate, up, dy) -> dgate, dup */
struct value *build_geglu(struct graph *graph, struct value *gate, struct value *up);
/* x / (1 + exp(-x)). _grad(x, dy) -> dx */
struct value *build_silu(struct graph *graph, struct value *x);
/* cap * tanh(x / cap). _grad(x, dy) -> dx */
struct value *build_softcap(struct graph *graph, struct value *x, double cap);

/* table [V, D], ids i32 [...] -> [..., D] = row * scale; gradient by scatter_add_rows,
 * row ignore_row (-1: none) gets none. */
struct value *build_embed(struct graph *graph, struct value *table, struct value *ids,
                          double scale, int64_t ignore_row);

/*
 * q [B, T, H, K], k and v [B, T, G, K], first_key i32 [B, T] -> out [B, T, H, K] and
 * lse f32 [B, H, T] (log-sum-exp of the scores; f64 when q is f64). Query head h reads
 * key-value head h / (H / G). Query i sees keys j with first_key[i] <= j <= i and, if
 * window > 0, i - j < window; none: output 0, lse 0. Scores are scale * q . k.
 * attention_grad(q, k, v, first_key, out, lse, dout) -> dq, dk, dv. lse has no
 * gradient. Heads of q split over an axis: those of k and v too, or (G = 1) they are
 * the same there.
 */
struct value *build_attention(struct graph *graph, struct value *q, struct value *k,
                              struct value *v, struct value *first_key, double scale,
                              int64_t window, struct value **lse);

/*
 * Attention over a cache: q [B, T, H, K], k and v [B, S, G, K] in S slots, position i32
 * [B, T] of the queries and key_position i32 [B, S] of what the slots hold -> [B, T, H,
 * K]. Query (b, t) sees slot s where 0 <= key_position[b, s] <= position[b, t] and, if
 * window > 0, position - key_position < window; none: 0. Heads and scale as in
 * attention. No gradient.
 */
struct value *build_attention_cached(struct graph *graph, struct value *q,
                                     struct value *k, struct value *v,
                                     struct value *position, struct value *key_position,
                                     double scale, int64_t window);

/*
 * cache [B, S, ...] with rows [B, T, ...] in the places slots i32 [B, T]; slots outside
 * 0 .. S - 1 are skipped, the others of one b must differ. Takes the cache's memory. No
 * gradient; b is not split over the mesh.
 */
struct value *build_write_rows(struct graph *graph, struct value *cache,
                               struct value *rows, struct value *slots);

/* What build_loss_head computes. */
struct loss_head_options {
    double cap;             /* soft cap of the logits; 0: none */
    double z_loss;          /* adds z_loss * logsumexp(z)^2 to the objective */
    double label_smoothing; /* share of the target that all of V get; below 1 */
    bool with_gradient;
    bool freezes_table; /* no d_table, and no work for it */
};

/*
 * Cross entropy of the rows that carry loss, without ever holding [rows, V]: hidden [N,
 * D], table [V, D], loss_rows i32 [C] (row of hidden; entries with weight 0 are
 * skipped), targets i32 [C], weight f32 [C]. z = hidden[row] . table^T, softcapped by
 * cap when cap > 0. Hidden and table may be bf16 or f32, each; logits and sums are f32.
 * Outputs:
 *   0 loss_sum   f64 []      sum of weight * objective, which is
 *                            logsumexp(z) - (1 - s) z[target] - s mean(z)
 *                            + z_loss logsumexp(z)^2, s = label_smoothing
 *   1 token_loss f32 [C]     logsumexp(z) - z[target], unweighted; 0 where weight is 0
 *   2 lse        f32 [C]
 * and with_gradient (upstream gradient of loss_sum is 1; scaling happens in the
 * update):
 *   3 d_hidden   [N, D]      dtype of hidden
 *   4 d_table    f32 [V, D]  plus acc where keep is true, in its memory, when given;
 *                            not there where the table is frozen (nor is acc then)
 * f64 hidden: everything f64. Optional operands: acc f32 [V, D], keep bool scalar.
 */
struct node *build_loss_head(struct graph *graph, struct value *hidden,
                             struct value *table, struct value *loss_rows,
                             struct value *targets, struct value *weight,
                             const struct loss_head_options *options, struct value *acc,
                             struct value *keep);

/* Positions in the hyper vector of adamw. */
enum adamw_hyper {
    ADAMW_LR,
    ADAMW_BETA1,
    ADAMW_BETA2,
    ADAMW_EPS,
    ADAMW_DECAY,            /* decoupled: p -= lr * decay * p first */
    ADAMW_BIAS_CORRECTION1, /* 1 - beta1^step */
    ADAMW_BIAS_CORRECTION2, /* 1 - beta2^step */
    ADAMW_N_HYPER
};

/* Odd, with its ones spread out: what a random word is multiplied by for v's half. */
#define ADAMW_MIX 0x9E3779B1

/*
 * p, g, m, v of one shape, g f32; hyper f32 [ADAMW_N_HYPER]; scale f32 scalar (times g:
 * 1 / denominator and clipping); apply bool scalar (false: nothing changes) -> p, m, v
 * in place. As torch.optim.AdamW: p = p (1 - lr decay); m = b1 m + (1 - b1) g; v = b2 v
 * + (1 - b2) g^2; p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps). p, m and v are f32, or
 * all bf16: then this is computed in f32, and each is rounded once, to nearest even.
 */
struct node *build_adamw(struct graph *graph, struct value *p, struct value *g,
                         struct value *m, struct value *v, struct value *hyper,
                         struct value *scale, struct value *apply);

/*
 * The same for p, m and v in bf16, rounded up or down by chance, in proportion to how
 * near either is: small updates are kept on average. The chance of element i is its
 * word of random_bits(seed, RANDOM_ROUNDING, step): the lower half for p, the upper for
 * m, a mixture for v. seed and step: u32 scalars.
 */
struct node *build_adamw_stochastic(struct graph *graph, struct value *p,
                                    struct value *g, struct value *m, struct value *v,
                                    struct value *hyper, struct value *scale,
                                    struct value *apply, struct value *seed,
                                    struct value *step);

#endif
