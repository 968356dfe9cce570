/*
 * k_attention - what the forward and the backward kernel of attention share: operands,
 * blocks, and which keys a query sees.
 *
 * Products run on blocks of rows of q. A row is one query of one head; where all heads
 * share one key-value head (G = 1), the H rows of a token are neighbours in memory and
 * a block holds all of them, so that few tokens fill it and little is wasted where the
 * mask cuts through. Else a block holds rows of one head.
 */
#ifndef BACKEND_CPU_K_ATTENTION_H
#define BACKEND_CPU_K_ATTENTION_H

#include "backend/cpu/gemm.h"
#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

enum { ATTENTION_ROWS = 128, ATTENTION_KEYS = 256 }; /* most in a block of scores */

struct attention {
    int64_t B, T, H, G, K;
    int64_t n_strands;        /* H, or 1 when a block holds all heads of its tokens */
    int64_t rows_per_token;   /* 1, or then H */
    int64_t tokens_per_block; /* so many that ATTENTION_ROWS are not exceeded */
    int64_t row_stride;       /* from row to row of q, out and their gradients */
    int64_t kv_stride;        /* from token to token of k and v: G K */
    int64_t window;           /* 0: none */
    float scale;
    const float *q;           /* [B, T, H, K] */
    const float *k, *v;       /* [B, T, G, K] */
    const int32_t *first_key; /* [B, T] */
    const struct native *native;
    const struct gemm *gemm;
};

/* Shapes and attributes only. */
struct attention attention_shape(const struct node *node);

/* And the first four operands of one rank, the first three of `arrays` in f32. */
struct attention attention_operands(const struct kernel_call *call, int local_rank,
                                    const struct wide_array *arrays, void *copies);

/* One block of scores: tokens of sequence b (their rows of one strand) times keys. */
struct attention_block {
    int64_t b, strand;
    struct grid_span tokens, keys;
};

int64_t attention_n_rows(const struct attention *a,
                         const struct attention_block *block);

/* Where in q, k and lse the block's first row or key is. */
int64_t attention_q_at(const struct attention *a, const struct attention_block *block);
int64_t attention_kv_at(const struct attention *a, const struct attention_block *block);
int64_t attention_g(const struct attention *a, int64_t strand);

/* Row r of the block: its place in lse [B, H, T], and the keys that it sees, counted
 * from the block's first key and cut to the block; empty: end == begin. */
int64_t attention_lse_at(const struct attention *a, const struct attention_block *block,
                         int64_t r);
struct grid_span attention_row_keys(const struct attention *a,
                                    const struct attention_block *block, int64_t r);

/* The smallest span that holds all keys that the tokens see; empty: end <= begin. */
struct grid_span attention_visible(const struct attention *a, int64_t b,
                                   struct grid_span tokens);

/* scores [rows, ATTENTION_KEYS] = scale * q . k */
void attention_scores(const struct attention *a, const struct attention_block *block,
                      float *scores);

#endif
