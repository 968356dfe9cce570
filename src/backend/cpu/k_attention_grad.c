/*
 * k_attention_grad - backward of attention in blocks; probabilities are computed again
 * from the scores and lse, so memory stays linear in tokens.
 *
 *   p = exp(s - lse),  dp = dout . v,  delta = sum(dout * out) per row
 *   ds = p (dp - delta) scale
 *   dv = p^T dout,  dk = ds^T q,  dq = ds k
 *
 * Phase 0: delta. Phase 1: tasks for dk and dv own a block of keys of one key-value head
 * and go through the group's heads and the blocks of queries in order; tasks for dq own a
 * block of queries of one head and go through the keys. Each computes p and ds for itself:
 * two more products than one pass would need, but no sums shared between tasks.
 */
#include <string.h>

#include "backend/cpu/k_attention.h"

struct attention_grad {
    struct attention a;
    const float *out, *dout; /* [B, T, H, K] */
    const float *lse;        /* [B, H, T] */
    float *delta;            /* [B, H, T], scratch */
    float *dq, *dk, *dv;
};

/* Per thread. */
struct blocks {
    float p[ATTENTION_QUERIES * ATTENTION_KEYS];
    float ds[ATTENTION_QUERIES * ATTENTION_KEYS];
};

static size_t scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    const struct attention a = attention_shape(node);
    return (size_t)(a.B * a.H * a.T) * sizeof(float);
}

static size_t thread_bytes(const struct node *node)
{
    (void)node;
    return sizeof(struct blocks);
}

static int n_phases(const struct node *node, size_t bytes)
{
    (void)node;
    (void)bytes;
    return 2;
}

static int64_t n_key_tasks(const struct attention *a)
{
    return a->B * a->G * base_div_up(a->T, ATTENTION_KEYS);
}

static int64_t n_query_tasks(const struct attention *a)
{
    return a->B * a->H * base_div_up(a->T, ATTENTION_QUERIES);
}

static int64_t n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)bytes;
    const struct attention a = attention_shape(node);
    return phase == 0 ? grid_row_tasks(a.B * a.T, a.q_stride)
                      : n_key_tasks(&a) + n_query_tasks(&a);
}

static void compute_delta(const struct attention_grad *grad, int64_t task)
{
    const struct attention *a = &grad->a;
    const struct grid_span tokens =
        grid_span(task, grid_rows_per_task(a->q_stride), a->B * a->T);
    for (int64_t t = tokens.begin; t < tokens.end; t++) {
        for (int64_t h = 0; h < a->H; h++) {
            const int64_t at = t * a->q_stride + h * a->K;
            grad->delta[(t / a->T * a->H + h) * a->T + t % a->T] =
                a->native->row_dot(grad->out + at, grad->dout + at, a->K);
        }
    }
}

/* p and ds for one row of a block; zero where unseen. */
static void grad_row(const struct attention_grad *grad, int64_t b, int64_t h, int64_t i,
                     struct grid_span keys, float *p, float *ds)
{
    const struct attention *a = &grad->a;
    const struct grid_span seen = attention_visible(a, b, i);
    const int64_t n = keys.end - keys.begin;
    const int64_t begin = base_min(base_max(seen.begin - keys.begin, 0), n);
    const int64_t end = base_max(base_min(seen.end - keys.begin, n), begin);
    const int64_t row = (b * a->H + h) * a->T + i;

    a->native->row_exp(p + begin, grad->lse[row], end - begin);
    a->native->softmax_grad_row(p + begin, ds + begin, grad->delta[row], a->scale,
                                end - begin, ds + begin);
    const size_t before_bytes = (size_t)begin * sizeof(float);
    const size_t after_bytes = (size_t)(n - end) * sizeof(float);
    memset(p, 0, before_bytes);
    memset(ds, 0, before_bytes);
    memset(p + end, 0, after_bytes);
    memset(ds + end, 0, after_bytes);
}

static void grad_block(const struct attention_grad *grad, int64_t b, int64_t h,
                       struct grid_span queries, struct grid_span keys,
                       struct blocks *blocks)
{
    const struct attention *a = &grad->a;
    const int64_t g = h / (a->H / a->G);
    attention_scores(a, b, h, queries, keys, blocks->p);
    a->gemm->f32(false, true, queries.end - queries.begin, keys.end - keys.begin, a->K,
                 grad->dout + attention_q_at(a, b, queries.begin, h), a->q_stride,
                 a->v + attention_kv_at(a, b, keys.begin, g), a->kv_stride, false,
                 blocks->ds, ATTENTION_KEYS);
    for (int64_t i = queries.begin; i < queries.end; i++) {
        const int64_t at = (i - queries.begin) * ATTENTION_KEYS;
        grad_row(grad, b, h, i, keys, blocks->p + at, blocks->ds + at);
    }
}

/* The part of `queries` that sees any of `keys`; empty: end <= begin. */
static struct grid_span queries_seeing(const struct attention *a, int64_t b,
                                       struct grid_span queries, struct grid_span keys)
{
    struct grid_span found = {queries.end, queries.begin};
    for (int64_t i = queries.begin; i < queries.end; i++) {
        const struct grid_span seen = attention_visible(a, b, i);
        if (base_max(seen.begin, keys.begin) < base_min(seen.end, keys.end)) {
            found.begin = base_min(found.begin, i);
            found.end = i + 1;
        }
    }
    return found;
}

static void zero_rows(float *x, int64_t stride, int64_t n_rows, int64_t length)
{
    for (int64_t i = 0; i < n_rows; i++) {
        memset(x + i * stride, 0, (size_t)length * sizeof(float));
    }
}

static void grad_of_keys(const struct attention_grad *grad, int64_t task,
                         struct blocks *blocks)
{
    const struct attention *a = &grad->a;
    const int64_t n_blocks = base_div_up(a->T, ATTENTION_KEYS);
    const int64_t g = task / n_blocks % a->G;
    const int64_t b = task / n_blocks / a->G;
    const struct grid_span keys = grid_span(task % n_blocks, ATTENTION_KEYS, a->T);
    const int64_t n_keys = keys.end - keys.begin;
    const int64_t at = attention_kv_at(a, b, keys.begin, g);
    const int64_t group = a->H / a->G;

    bool is_first = true;
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        for (int64_t i = keys.begin; i < a->T; i += ATTENTION_QUERIES) {
            const struct grid_span block = {i, base_min(i + ATTENTION_QUERIES, a->T)};
            const struct grid_span queries = queries_seeing(a, b, block, keys);
            const int64_t n_queries = queries.end - queries.begin;
            if (n_queries <= 0) {
                continue;
            }
            grad_block(grad, b, h, queries, keys, blocks);
            const int64_t q_at = attention_q_at(a, b, queries.begin, h);
            a->gemm->f32(true, false, n_keys, a->K, n_queries, blocks->p,
                         ATTENTION_KEYS, grad->dout + q_at, a->q_stride, !is_first,
                         grad->dv + at, a->kv_stride);
            a->gemm->f32(true, false, n_keys, a->K, n_queries, blocks->ds,
                         ATTENTION_KEYS, a->q + q_at, a->q_stride, !is_first,
                         grad->dk + at, a->kv_stride);
            is_first = false;
        }
    }
    if (is_first) {
        zero_rows(grad->dk + at, a->kv_stride, n_keys, a->K);
        zero_rows(grad->dv + at, a->kv_stride, n_keys, a->K);
    }
}

static void grad_of_queries(const struct attention_grad *grad, int64_t task,
                            struct blocks *blocks)
{
    const struct attention *a = &grad->a;
    const int64_t n_blocks = base_div_up(a->T, ATTENTION_QUERIES);
    const int64_t h = task / n_blocks % a->H;
    const int64_t b = task / n_blocks / a->H;
    const int64_t g = h / (a->H / a->G);
    const struct grid_span queries =
        grid_span(task % n_blocks, ATTENTION_QUERIES, a->T);
    const int64_t n_queries = queries.end - queries.begin;
    const int64_t at = attention_q_at(a, b, queries.begin, h);
    const struct grid_span seen = attention_block_visible(a, b, queries);

    for (int64_t j = seen.begin; j < seen.end; j += ATTENTION_KEYS) {
        const struct grid_span keys = {j, base_min(j + ATTENTION_KEYS, seen.end)};
        grad_block(grad, b, h, queries, keys, blocks);
        a->gemm->f32(false, false, n_queries, a->K, keys.end - keys.begin, blocks->ds,
                     ATTENTION_KEYS, a->k + attention_kv_at(a, b, keys.begin, g),
                     a->kv_stride, j > seen.begin, grad->dq + at, a->q_stride);
    }
    if (seen.begin >= seen.end) {
        zero_rows(grad->dq + at, a->q_stride, n_queries, a->K);
    }
}

/* Operands: q, k, v, first_key, out, lse, dout. Results: dq, dk, dv. */
static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct attention_grad grad = {
        .a = attention_operands(call, rank),
        .out = rank->inputs[4],
        .lse = rank->inputs[5],
        .dout = rank->inputs[6],
        .delta = rank->scratch,
        .dq = rank->outputs[0],
        .dk = rank->outputs[1],
        .dv = rank->outputs[2],
    };
    const int64_t n_keys = n_key_tasks(&grad.a);
    if (phase == 0) {
        compute_delta(&grad, task);
    } else if (task < n_keys) {
        grad_of_keys(&grad, task, thread_scratch);
    } else {
        grad_of_queries(&grad, task - n_keys, thread_scratch);
    }
}

const struct kernel kernel_attention_grad = {
    .scratch_bytes = scratch_bytes,
    .thread_bytes = thread_bytes,
    .n_phases = n_phases,
    .n_tasks = n_tasks,
    .run = run,
};
