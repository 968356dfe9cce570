/*
 * k_attention - what the forward and the backward kernel of attention share: operands,
 * block sizes and which keys a query sees.
 */
#ifndef BACKEND_CPU_K_ATTENTION_H
#define BACKEND_CPU_K_ATTENTION_H

#include "backend/cpu/gemm.h"
#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

enum { ATTENTION_QUERIES = 128, ATTENTION_KEYS = 256 }; /* in a block of scores */

struct attention {
    int64_t B, T, H, G, K;
    int64_t q_stride;  /* from token to token of q and out: H K */
    int64_t kv_stride; /* of k and v: G K */
    int64_t window;    /* 0: none */
    float scale;
    const float *q;           /* [B, T, H, K] */
    const float *k, *v;       /* [B, T, G, K] */
    const int32_t *first_key; /* [B, T] */
    const struct native *native;
    const struct gemm *gemm;
};

/* Shapes and attributes only. */
struct attention attention_shape(const struct node *node);

/* And the first four operands of one rank. */
struct attention attention_operands(const struct kernel_call *call,
                                    const struct kernel_rank *rank);

/* Keys begin .. end - 1 that query i of sequence b sees; empty: end <= begin. */
struct grid_span attention_visible(const struct attention *a, int64_t b, int64_t i);

/* The smallest span that holds what the queries of a block see; empty: end <= begin. */
struct grid_span attention_block_visible(const struct attention *a, int64_t b,
                                         struct grid_span queries);

/* Offsets of head h (or key-value head g) of token i of sequence b. */
int64_t attention_q_at(const struct attention *a, int64_t b, int64_t i, int64_t h);
int64_t attention_kv_at(const struct attention *a, int64_t b, int64_t i, int64_t g);

/* scores [queries, ATTENTION_KEYS] = scale * q . k for one head, keys j .. j + n - 1. */
void attention_scores(const struct attention *a, int64_t b, int64_t h,
                      struct grid_span queries, struct grid_span keys, float *scores);

#endif
