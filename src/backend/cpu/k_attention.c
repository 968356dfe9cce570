/*
 * k_attention - attention in blocks with a running softmax: memory linear in tokens.
 *
 * A task is a block of rows. It walks over blocks of the keys that any of them sees;
 * everything outside is never touched. For each row it keeps the largest score m and
 * the sum l of exp(score - m) so far; when m grows, l and the output row, which serves
 * as the accumulator, shrink by exp(m_old - m_new). In the end out /= l and lse = m +
 * log l. (Milakov and Gimelshein 2018; Dao et al. 2022.)
 *
 * The keys that one query sees are one span (graph/build.h), so a row of scores is
 * masked by filling both sides of the span with zeros.
 */
#include "backend/cpu/k_attention.h"

#include <math.h>
#include <string.h>

/* Per thread. */
struct running {
    float scores[ATTENTION_ROWS * ATTENTION_KEYS];
    float largest[ATTENTION_ROWS]; /* m; -infinity: nothing seen yet */
    float sum[ATTENTION_ROWS];     /* l */
};

/* About 130 KiB, whatever the shapes: scores exist for one block at a time. */
static size_t thread_bytes(const struct node *node)
{
    (void)node;
    return sizeof(struct running);
}

/* Blocks of tokens in a sequence; the last may be shorter. */
static int64_t n_blocks(const struct attention *a)
{
    return base_div_up(a->T, a->tokens_per_block);
}

/* Copied where they are bf16: q, k, v, and out. */
static const struct wide_array arrays[] = {
    {false, 0}, {false, 1}, {false, 2}, {true, 0}};

enum { N_ARRAYS = ARRAY_LENGTH(arrays), OUT = 3 };

static size_t scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    return wide_copies_bytes(node, arrays, N_ARRAYS);
}

/* Copying and rounding around the phase that is always there. */
static int n_phases(const struct node *node, size_t bytes)
{
    (void)bytes;
    return wide_has_bf16(node) ? 3 : 1;
}

/* Later blocks of a causal sequence see more keys; tasks are small enough to even
 * out. */
static int64_t n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)bytes;
    if (wide_has_bf16(node) && phase != 1) {
        return wide_copies_tasks(node, arrays, N_ARRAYS, phase == 2);
    }
    const struct attention a = attention_shape(node);
    return a.B * a.n_strands * n_blocks(&a);
}

/* Scores of row r into exp(score - m), zero where unseen; `out`, its output row,
 * shrinks when m grows (NULL: nothing there yet). m_new = max(m, max s), l = l exp(m -
 * m_new) + sum exp(s - m_new). While nothing was seen m is -infinity and the factor is
 * 0. */
static void softmax_row(const struct attention *a, const struct attention_block *block,
                        int64_t r, struct running *running, float *out)
{
    float *scores = running->scores + r * ATTENTION_KEYS;
    const struct grid_span seen = attention_row_keys(a, block, r);
    const int64_t n_seen = seen.end - seen.begin;
    if (n_seen > 0) {
        const float old = running->largest[r];
        const float found = a->native->row_max(scores + seen.begin, n_seen);
        const float largest = found > old ? found : old;
        const float shrink = expf(old - largest);
        if (shrink != 1.0F && out != NULL) {
            a->native->row_scale(out, shrink, a->K);
        }
        const float sum = a->native->row_exp(scores + seen.begin, largest, n_seen);
        running->sum[r] = running->sum[r] * shrink + sum;
        running->largest[r] = largest;
    }
    const int64_t n_keys = block->keys.end - block->keys.begin;
    memset(scores, 0, (size_t)seen.begin * sizeof(float));
    memset(scores + seen.end, 0, (size_t)(n_keys - seen.end) * sizeof(float));
}

/* Adds a block of keys to its rows of out. out [rows, K] (+)= p [rows, keys] v [keys,
 * K]. The first block of keys overwrites, so out need not be cleared. */
static void add_keys(const struct attention *a, const struct attention_block *block,
                     bool is_first, struct running *running, float *out)
{
    const int64_t n_rows = attention_n_rows(a, block);
    float *rows = out + attention_q_at(a, block);
    attention_scores(a, block, running->scores);
    for (int64_t r = 0; r < n_rows; r++) {
        softmax_row(a, block, r, running, is_first ? NULL : rows + r * a->row_stride);
    }
    a->gemm->f32(false, false, n_rows, a->K, block->keys.end - block->keys.begin,
                 running->scores, ATTENTION_KEYS, a->v + attention_kv_at(a, block),
                 a->kv_stride, !is_first, rows, a->row_stride);
}

/* out [B, T, H, K], lse [B, H, T]; rows that saw nothing become 0. l is 0 only where no
 * key was seen: otherwise the largest score itself adds exp(0) = 1. */
static void finish_rows(const struct attention *a, const struct attention_block *block,
                        const struct running *running, float *out, float *lse)
{
    float *rows = out + attention_q_at(a, block);
    for (int64_t r = 0; r < attention_n_rows(a, block); r++) {
        float *row = rows + r * a->row_stride;
        float *row_lse = lse + attention_lse_at(a, block, r);
        if (running->sum[r] == 0.0F) {
            memset(row, 0, (size_t)a->K * sizeof(float));
            *row_lse = 0;
            continue;
        }
        a->native->row_scale(row, 1.0F / running->sum[r], a->K);
        *row_lse = running->largest[r] + logf(running->sum[r]);
    }
}

/* task = (b * n_strands + strand) * n_blocks + block. Blocks of keys are walked in
 * order, so each row is the same sum whichever thread runs it. */
static void run_block(const struct kernel_call *call, int local_rank, int64_t task,
                      struct running *running)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct attention a =
        attention_operands(call, local_rank, arrays, rank->scratch);
    float *out = wide_copies_get(call, local_rank, arrays, OUT, rank->scratch);
    struct attention_block block = {
        .b = task / n_blocks(&a) / a.n_strands,
        .strand = task / n_blocks(&a) % a.n_strands,
        .tokens = grid_span(task % n_blocks(&a), a.tokens_per_block, a.T),
    };
    for (int64_t r = 0; r < ATTENTION_ROWS; r++) {
        running->largest[r] = -INFINITY;
        running->sum[r] = 0;
    }
    const struct grid_span seen = attention_visible(&a, block.b, block.tokens);
    for (int64_t j = seen.begin; j < seen.end; j += ATTENTION_KEYS) {
        block.keys = (struct grid_span){j, base_min(j + ATTENTION_KEYS, seen.end)};
        add_keys(&a, &block, j == seen.begin, running, out);
    }
    finish_rows(&a, &block, running, out, rank->outputs[1]);
}

static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    if (wide_has_bf16(call->node) && phase != 1) {
        wide_copies_run(call, local_rank, arrays, N_ARRAYS, phase == 2,
                        call->ranks[local_rank].scratch, task);
    } else {
        run_block(call, local_rank, task, thread_scratch);
    }
}

const struct kernel kernel_attention = {
    .supports = wide_takes,
    .scratch_bytes = scratch_bytes,
    .thread_bytes = thread_bytes,
    .n_phases = n_phases,
    .n_tasks = n_tasks,
    .run = run,
};
