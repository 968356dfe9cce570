/*
 * define_attention - what the two forms of attention share: all scores at once
 * (define_attention.c), or a block of keys after the other (define_attention_tiled.c).
 *
 * With R = H / G query heads per key-value head, queries become rows [B, G, R * T, K]
 * of one product with the keys [B, G, T, K]; keys and values are never repeated. Hidden
 * scores are a large negative number, not minus infinity, so that rows that see nothing
 * stay finite: their weights, log-sum-exp and gradients are zero.
 */
#ifndef GRAPH_DEFINE_ATTENTION_H
#define GRAPH_DEFINE_ATTENTION_H

#include "graph/define.h"

#define DEFINE_ATTENTION_HIDDEN_SCORE (-1e30)

/* Lengths and types, and where the query heads are split: on G where the keys are too,
 * else on R. */
struct define_attention_layout {
    int64_t B, T, H, G, R, K; /* local: what one rank holds */
    enum dtype dtype, math;   /* of q, k, v; of scores */
    struct placement groups;  /* of [B, T, G, R, K] */
};

/* From inputs q [B, T, H, K] and k [B, T, G, K]. */
struct define_attention_layout define_attention_layout_of(const struct define *define);

/* Tensors by their dimensions, for placements. */
enum define_attention_form {
    DEFINE_ATTENTION_HEADS,  /* [B, T, H, K] */
    DEFINE_ATTENTION_ROWS,   /* [B, G, R * T, any] */
    DEFINE_ATTENTION_SCORES, /* [B, G, R, T, any] */
    DEFINE_ATTENTION_LSE,    /* [B, H, T] */
};

/* How a tensor of that form lies; partial where `like` (NULL: nowhere) is. */
struct placement
define_attention_placement(const struct define_attention_layout *layout,
                           enum define_attention_form form, const struct value *like);

/* [B, T, H, K] -> [B, G, R * T, K], and back. */
struct value *define_attention_rows(struct graph *graph,
                                    const struct define_attention_layout *layout,
                                    struct value *x);
struct value *define_attention_heads(struct graph *graph,
                                     const struct define_attention_layout *layout,
                                     struct value *rows);

/* k or v [B, T, G, K] -> [B, G, T, K] */
struct value *define_attention_keys(struct graph *graph, struct value *x);

/* The first key that each query sees, i32 [B, T], from first_key and the window. */
struct value *define_attention_low(struct graph *graph, struct value *first_key,
                                   int64_t window);

/* Scores of q rows [B, G, R * T, K] with keys [B, G, n, K] whose first one has number
 * `start` (i32 scalar; NULL: 0): [B, G, R, T, n], hidden where *mask is false. */
struct value *define_attention_scores(struct graph *graph,
                                      const struct define_attention_layout *layout,
                                      struct value *q, struct value *k,
                                      struct value *low, struct value *start,
                                      double scale, struct value **mask);

/* The same with the mask given as `visible` bool [B, T, n]. */
struct value *define_attention_masked(struct graph *graph,
                                      const struct define_attention_layout *layout,
                                      struct value *q, struct value *k,
                                      struct value *visible, double scale,
                                      struct value **mask);

/* softmax(scores) v as [B, T, H, K], from scores [B, G, R, T, n], their mask and v [B, G,
 * n, K]; *lse as attention gives it. */
struct value *define_attention_mix(struct graph *graph,
                                   const struct define_attention_layout *layout,
                                   struct value *scores, struct value *mask,
                                   struct value *v, struct value **lse);

/* [B, G, R, T, n] -> [B, G, R * T, n] */
struct value *define_attention_flat(struct graph *graph,
                                    const struct define_attention_layout *layout,
                                    struct value *scores);

/* lse [B, H, T] from the largest scores and the sums of exponentials above them, both
 * [B, G, R, T]. *safe_sum: the sums, or 1 where nothing is visible. */
struct value *define_attention_lse(struct graph *graph,
                                   const struct define_attention_layout *layout,
                                   struct value *top, struct value *sum,
                                   struct value **safe_sum);

/* The forms with a loop over blocks of keys, of attention and of attention_grad. */
void define_attention_tiled(struct define *define);
void define_attention_tiled_grad(struct define *define);

#endif
