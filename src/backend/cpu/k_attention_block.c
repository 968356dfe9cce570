/*
 * k_attention_block - addresses, masks and scores of one block of attention.
 */
#include "backend/cpu/k_attention.h"

/* Rows of one head in a block: fewer, as the mask cuts through that many tokens. */
enum { ROWS_OF_ONE_HEAD = 64 };

/* Heads share a block when there is one key-value head: then row (token, head) of q is
 * at a fixed stride. With several groups the heads of one are not. Operands: q [B, T,
 * H, K], k and v [B, T, G, K]. */
struct attention attention_shape(const struct node *node)
{
    const int64_t *q = node->inputs[0]->type.shape.dim;
    const int64_t *k = node->inputs[1]->type.shape.dim;
    const int64_t H = q[2];
    const bool is_shared = k[2] == 1 && H > 1 && H <= ATTENTION_ROWS;
    return (struct attention){
        .B = q[0],
        .T = q[1],
        .H = H,
        .G = k[2],
        .K = q[3],
        .n_strands = is_shared ? 1 : H,
        .rows_per_token = is_shared ? H : 1,
        .tokens_per_block = is_shared ? ATTENTION_ROWS / H : ROWS_OF_ONE_HEAD,
        .row_stride = is_shared ? q[3] : H * q[3],
        .kv_stride = k[2] * k[3],
        .window = node->attributes.window,
        .scale = (float)node->attributes.value,
    };
}

/* Cheap enough to be made anew by each task. */
struct attention attention_operands(const struct kernel_call *call, int local_rank,
                                    const struct wide_array *arrays, void *copies)
{
    struct attention a = attention_shape(call->node);
    a.q = wide_copies_get(call, local_rank, arrays, 0, copies);
    a.k = wide_copies_get(call, local_rank, arrays, 1, copies);
    a.v = wide_copies_get(call, local_rank, arrays, 2, copies);
    a.first_key = call->ranks[local_rank].inputs[3];
    a.native = call->native;
    a.gemm = call->gemm;
    return a;
}

/* At most ATTENTION_ROWS, by the choice of tokens_per_block. */
int64_t attention_n_rows(const struct attention *a, const struct attention_block *block)
{
    return (block->tokens.end - block->tokens.begin) * a->rows_per_token;
}

/* Also the place in out, dout and dq, which have the shape of q.
 * q[b][token][strand][0]; where heads share a block, strand is 0 and rows go on through
 * the heads. */
int64_t attention_q_at(const struct attention *a, const struct attention_block *block)
{
    return ((block->b * a->T + block->tokens.begin) * a->H + block->strand) * a->K;
}

/* H / G neighbouring heads share one head of k and v. */
int64_t attention_g(const struct attention *a, int64_t strand)
{
    return strand / (a->H / a->G);
}

/* k[b][key][g][0], and the same place in v. */
int64_t attention_kv_at(const struct attention *a, const struct attention_block *block)
{
    const int64_t token = block->b * a->T + block->keys.begin;
    return token * a->kv_stride + attention_g(a, block->strand) * a->K;
}

/* lse[b][h][token]: row r of the block is token r / rows_per_token and, of its strand,
 * head r mod rows_per_token. */
int64_t attention_lse_at(const struct attention *a, const struct attention_block *block,
                         int64_t r)
{
    const int64_t h = block->strand + r % a->rows_per_token;
    return (block->b * a->H + h) * a->T + block->tokens.begin + r / a->rows_per_token;
}

/* Keys that token i sees; empty: end <= begin. From the start of its document or of its
 * window, whichever is later, up to itself. Padding has first_key T and so an empty
 * span. */
static struct grid_span token_keys(const struct attention *a, int64_t b, int64_t i)
{
    int64_t begin = base_max(0, a->first_key[b * a->T + i]);
    if (a->window > 0) {
        begin = base_max(begin, i - a->window + 1);
    }
    return (struct grid_span){begin, i + 1};
}

/* Rows of a token see the same keys, whatever their head. Both ends are cut to 0 .. n,
 * so that a span outside the block comes out empty and not reversed. */
struct grid_span attention_row_keys(const struct attention *a,
                                    const struct attention_block *block, int64_t r)
{
    const int64_t n = block->keys.end - block->keys.begin;
    const struct grid_span seen =
        token_keys(a, block->b, block->tokens.begin + r / a->rows_per_token);
    const int64_t begin = base_max(0, base_min(seen.begin - block->keys.begin, n));
    const int64_t end = base_min(seen.end - block->keys.begin, n);
    return (struct grid_span){begin, base_max(end, begin)};
}

/* A scan over the tokens: a few hundred comparisons for a block of millions of
 * products. */
struct grid_span attention_visible(const struct attention *a, int64_t b,
                                   struct grid_span tokens)
{
    struct grid_span all = {a->T, 0};
    for (int64_t i = tokens.begin; i < tokens.end; i++) {
        const struct grid_span seen = token_keys(a, b, i);
        if (seen.begin < seen.end) {
            all.begin = base_min(all.begin, seen.begin);
            all.end = base_max(all.end, seen.end);
        }
    }
    return all;
}

/* The scale is applied after the product, as in the definition. */
void attention_scores(const struct attention *a, const struct attention_block *block,
                      float *scores)
{
    const int64_t n_rows = attention_n_rows(a, block);
    const int64_t n_keys = block->keys.end - block->keys.begin;
    a->gemm->f32(false, true, n_rows, n_keys, a->K, a->q + attention_q_at(a, block),
                 a->row_stride, a->k + attention_kv_at(a, block), a->kv_stride, false,
                 scores, ATTENTION_KEYS);
    for (int64_t r = 0; r < n_rows && a->scale != 1.0F; r++) {
        a->native->row_scale(scores + r * ATTENTION_KEYS, a->scale, n_keys);
    }
}
