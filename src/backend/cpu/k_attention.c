/*
 * k_attention - attention in blocks with a running softmax: memory linear in tokens.
 *
 * A task is a block of queries of one head. It walks over blocks of the keys that any of
 * them sees; everything outside is never touched. For each row it keeps the largest score
 * m and the sum l of exp(score - m) so far; when m grows, l and the output row, which
 * serves as the accumulator, shrink by exp(m_old - m_new). In the end out /= l and
 * lse = m + log l. (Milakov and Gimelshein 2018; Dao et al. 2022.)
 *
 * The keys that one query sees are one span (graph/build.h), so a row of scores is masked
 * by filling both sides of the span with zeros.
 */
#include "backend/cpu/k_attention.h"

#include <math.h>
#include <string.h>

struct attention attention_shape(const struct node *node)
{
    const int64_t *q = node->inputs[0]->type.shape.dim;
    const int64_t *k = node->inputs[1]->type.shape.dim;
    return (struct attention){
        .B = q[0],
        .T = q[1],
        .H = q[2],
        .G = k[2],
        .K = q[3],
        .q_stride = q[2] * q[3],
        .kv_stride = k[2] * k[3],
        .window = node->attributes.window,
        .scale = (float)node->attributes.value,
    };
}

struct attention attention_operands(const struct kernel_call *call,
                                    const struct kernel_rank *rank)
{
    struct attention a = attention_shape(call->node);
    a.q = rank->inputs[0];
    a.k = rank->inputs[1];
    a.v = rank->inputs[2];
    a.first_key = rank->inputs[3];
    a.native = call->native;
    a.gemm = call->gemm;
    return a;
}

struct grid_span attention_visible(const struct attention *a, int64_t b, int64_t i)
{
    int64_t begin = base_max(0, a->first_key[b * a->T + i]);
    if (a->window > 0) {
        begin = base_max(begin, i - a->window + 1);
    }
    return (struct grid_span){begin, i + 1};
}

struct grid_span attention_block_visible(const struct attention *a, int64_t b,
                                         struct grid_span queries)
{
    struct grid_span all = {a->T, 0};
    for (int64_t i = queries.begin; i < queries.end; i++) {
        const struct grid_span seen = attention_visible(a, b, i);
        if (seen.begin < seen.end) {
            all.begin = base_min(all.begin, seen.begin);
            all.end = base_max(all.end, seen.end);
        }
    }
    return all;
}

int64_t attention_q_at(const struct attention *a, int64_t b, int64_t i, int64_t h)
{
    return (b * a->T + i) * a->q_stride + h * a->K;
}

int64_t attention_kv_at(const struct attention *a, int64_t b, int64_t i, int64_t g)
{
    return (b * a->T + i) * a->kv_stride + g * a->K;
}

void attention_scores(const struct attention *a, int64_t b, int64_t h,
                      struct grid_span queries, struct grid_span keys, float *scores)
{
    const int64_t g = h / (a->H / a->G);
    const int64_t n_queries = queries.end - queries.begin;
    const int64_t n_keys = keys.end - keys.begin;
    a->gemm->f32(false, true, n_queries, n_keys, a->K,
                 a->q + attention_q_at(a, b, queries.begin, h), a->q_stride,
                 a->k + attention_kv_at(a, b, keys.begin, g), a->kv_stride, false,
                 scores, ATTENTION_KEYS);
    for (int64_t i = 0; i < n_queries && a->scale != 1.0F; i++) {
        a->native->row_scale(scores + i * ATTENTION_KEYS, a->scale, n_keys);
    }
}

/* ---- forward ---- */

/* Per thread. */
struct running {
    float scores[ATTENTION_QUERIES * ATTENTION_KEYS];
    float largest[ATTENTION_QUERIES]; /* m */
    float sum[ATTENTION_QUERIES];     /* l */
};

static size_t thread_bytes(const struct node *node)
{
    (void)node;
    return sizeof(struct running);
}

static int64_t n_query_blocks(const struct attention *a)
{
    return base_div_up(a->T, ATTENTION_QUERIES);
}

static int64_t n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)phase;
    (void)bytes;
    const struct attention a = attention_shape(node);
    return a.B * a.H * n_query_blocks(&a);
}

/* One row of scores into exp(score - m), zero where unseen; `row` is its output row, which
 * shrinks when m grows. */
static void softmax_row(const struct attention *a, struct grid_span seen,
                        struct grid_span keys, struct running *running, int64_t i,
                        float *row)
{
    float *scores = running->scores + i * ATTENTION_KEYS;
    const int64_t n = keys.end - keys.begin;
    const int64_t begin = base_min(base_max(seen.begin - keys.begin, 0), n);
    const int64_t end = base_max(base_min(seen.end - keys.begin, n), begin);

    if (begin < end) {
        const float old = running->largest[i];
        const float found = a->native->row_max(scores + begin, end - begin);
        const float largest = found > old ? found : old;
        const float shrink = expf(old - largest);
        if (shrink != 1.0F && row != NULL) {
            a->native->row_scale(row, shrink, a->K);
        }
        const float sum = a->native->row_exp(scores + begin, largest, end - begin);
        running->sum[i] = running->sum[i] * shrink + sum;
        running->largest[i] = largest;
    }
    memset(scores, 0, (size_t)begin * sizeof(float));
    memset(scores + end, 0, (size_t)(n - end) * sizeof(float));
}

/* Adds one block of keys to the outputs of a block of queries. */
static void add_keys(const struct attention *a, int64_t b, int64_t h,
                     struct grid_span queries, struct grid_span keys, bool is_first,
                     struct running *running, float *out)
{
    attention_scores(a, b, h, queries, keys, running->scores);
    for (int64_t i = queries.begin; i < queries.end; i++) {
        float *row = is_first ? NULL : out + attention_q_at(a, b, i, h);
        softmax_row(a, attention_visible(a, b, i), keys, running, i - queries.begin,
                    row);
    }
    const int64_t g = h / (a->H / a->G);
    a->gemm->f32(false, false, queries.end - queries.begin, a->K, keys.end - keys.begin,
                 running->scores, ATTENTION_KEYS,
                 a->v + attention_kv_at(a, b, keys.begin, g), a->kv_stride, !is_first,
                 out + attention_q_at(a, b, queries.begin, h), a->q_stride);
}

/* out [B, T, H, K], lse [B, H, T]; rows that see nothing become 0. */
static void finish_rows(const struct attention *a, int64_t b, int64_t h,
                        struct grid_span queries, const struct running *running,
                        float *out, float *lse)
{
    for (int64_t i = queries.begin; i < queries.end; i++) {
        const struct grid_span seen = attention_visible(a, b, i);
        float *row = out + attention_q_at(a, b, i, h);
        float *row_lse = lse + (b * a->H + h) * a->T + i;
        if (seen.begin >= seen.end) {
            memset(row, 0, (size_t)a->K * sizeof(float));
            *row_lse = 0;
            continue;
        }
        const float sum = running->sum[i - queries.begin];
        a->native->row_scale(row, 1.0F / sum, a->K);
        *row_lse = running->largest[i - queries.begin] + logf(sum);
    }
}

static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    (void)phase;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct attention a = attention_operands(call, rank);
    const int64_t n_blocks = n_query_blocks(&a);
    const int64_t h = task / n_blocks % a.H;
    const int64_t b = task / n_blocks / a.H;
    const struct grid_span queries = grid_span(task % n_blocks, ATTENTION_QUERIES, a.T);

    struct running *running = thread_scratch;
    for (int64_t i = 0; i < ATTENTION_QUERIES; i++) {
        running->largest[i] = -INFINITY;
        running->sum[i] = 0;
    }
    const struct grid_span seen = attention_block_visible(&a, b, queries);
    for (int64_t j = seen.begin; j < seen.end; j += ATTENTION_KEYS) {
        const struct grid_span keys = {j, base_min(j + ATTENTION_KEYS, seen.end)};
        add_keys(&a, b, h, queries, keys, j == seen.begin, running, rank->outputs[0]);
    }
    finish_rows(&a, b, h, queries, running, rank->outputs[0], rank->outputs[1]);
}

const struct kernel kernel_attention = {
    .thread_bytes = thread_bytes, .n_tasks = n_tasks, .run = run};
