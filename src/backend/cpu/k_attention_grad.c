/*
 * k_attention_grad - backward of attention in blocks; probabilities are computed again
 * from the scores and lse, so memory stays linear in tokens.
 *
 *   p = exp(s - lse),  dp = dout . v,  delta = sum(dout * out) per row
 *   ds = p (dp - delta) scale
 *   dv = p^T dout,  dk = ds^T q,  dq = ds k
 *
 * A task of phase 0 owns a segment of the tokens of one strand: it walks over its
 * blocks of rows and over the keys that each sees, finishes dq, and adds up dk and dv
 * of its own in scratch. Phase 1 sums these parts in order: over segments, and over the
 * heads of a group where each is a strand. Long sequences are cut into segments only so
 * far that there are MIN_TASKS.
 */
#include <string.h>

#include "backend/cpu/k_attention.h"

enum { MIN_TASKS = 8, KEYS_PER_SUM = 32 };

struct segments {
    int64_t tokens;  /* in each; whole blocks */
    int64_t n;       /* per strand */
    int64_t n_parts; /* over all sequences and strands */
};

struct attention_grad {
    struct attention a;
    struct segments segments;
    const float *out, *dout; /* [B, T, H, K] */
    const float *lse;        /* [B, H, T] */
    float *dq;               /* [B, T, H, K] */
    float *dk, *dv;          /* [B, T, G, K] */
    struct grid_span *seen;  /* [n_parts]: keys that the part has */
    float *parts;            /* [n_parts, 2, T, K]: dk and dv, rows `seen` only */
};

/* Per thread. */
struct blocks {
    float p[ATTENTION_ROWS * ATTENTION_KEYS];
    float ds[ATTENTION_ROWS * ATTENTION_KEYS];
};

/* Sequences and strands alone may be MIN_TASKS; every further segment costs a part of
 * scratch and its sum. Whole blocks, so that no block is split. */
static struct segments cut_segments(const struct attention *a)
{
    const int64_t n_blocks = base_div_up(a->T, a->tokens_per_block);
    const int64_t wanted = base_div_up(MIN_TASKS, a->B * a->n_strands);
    const int64_t blocks = base_div_up(n_blocks, base_min(wanted, n_blocks));
    const int64_t n = base_div_up(n_blocks, blocks);
    return (struct segments){
        .tokens = blocks * a->tokens_per_block,
        .n = n,
        .n_parts = a->B * a->n_strands * n,
    };
}

/* Rounded up, as the parts begin behind it. */
static size_t seen_bytes(const struct segments *segments)
{
    const size_t bytes = (size_t)segments->n_parts * sizeof(struct grid_span);
    return (size_t)base_round_up((int64_t)bytes, 64);
}

/* Copied where they are bf16, in the order of `enum array`. */
static const struct wide_array arrays[] = {{false, 0}, {false, 1}, {false, 2},
                                           {false, 4}, {false, 6}, {true, 0},
                                           {true, 1},  {true, 2}};

enum array { Q, K, V, OUT, DOUT, DQ, DK, DV, N_ARRAYS };

/* Copies, what each part has seen, then the parts; aligned, as vectors are read from
 * there. */
static size_t scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    const struct attention a = attention_shape(node);
    const struct segments segments = cut_segments(&a);
    const size_t part_bytes = 2 * (size_t)(a.T * a.K) * sizeof(float);
    return wide_copies_bytes(node, arrays, N_ARRAYS) + seen_bytes(&segments) +
           (size_t)segments.n_parts * part_bytes;
}

/* About 256 KiB: p and ds of one block. */
static size_t thread_bytes(const struct node *node)
{
    (void)node;
    return sizeof(struct blocks);
}

/* Copying and rounding around the two phases that are always there. */
static int n_phases(const struct node *node, size_t bytes)
{
    (void)bytes;
    return wide_has_bf16(node) ? 4 : 2;
}

/* The phase as f32 counts it: 0 and 1; before and behind, -1 and 2. */
static int inner_phase(const struct node *node, int phase)
{
    return wide_has_bf16(node) ? phase - 1 : phase;
}

/* Phase 1 has a task for every KEYS_PER_SUM keys of a sequence, which nobody else
 * writes. */
static int64_t n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)bytes;
    const struct attention a = attention_shape(node);
    const int inner = inner_phase(node, phase);
    if (inner < 0 || inner > 1) {
        return wide_copies_tasks(node, arrays, N_ARRAYS, inner > 1);
    }
    return inner == 0 ? cut_segments(&a).n_parts : a.B * base_div_up(a.T, KEYS_PER_SUM);
}

/* p and ds of row r, zero where unseen; in: scores and dp. delta = sum over K of out *
 * dout stands for the sum over keys of p * dp, as out = p v. */
static void grad_row(const struct attention_grad *grad,
                     const struct attention_block *block, int64_t r,
                     struct blocks *blocks)
{
    const struct attention *a = &grad->a;
    float *p = blocks->p + r * ATTENTION_KEYS;
    float *ds = blocks->ds + r * ATTENTION_KEYS;
    const int64_t at = attention_q_at(a, block) + r * a->row_stride;
    const float delta = a->native->row_dot(grad->out + at, grad->dout + at, a->K);
    const struct grid_span seen = attention_row_keys(a, block, r);
    const int64_t n_seen = seen.end - seen.begin;

    a->native->row_exp(p + seen.begin, grad->lse[attention_lse_at(a, block, r)],
                       n_seen);
    a->native->softmax_grad_row(p + seen.begin, ds + seen.begin, delta, a->scale,
                                n_seen, ds + seen.begin);
    const int64_t n_keys = block->keys.end - block->keys.begin;
    const size_t before_bytes = (size_t)seen.begin * sizeof(float);
    const size_t after_bytes = (size_t)(n_keys - seen.end) * sizeof(float);
    memset(p, 0, before_bytes);
    memset(ds, 0, before_bytes);
    memset(p + seen.end, 0, after_bytes);
    memset(ds + seen.end, 0, after_bytes);
}

/* One block's share of dq (the first block of keys overwrites), and of dk and dv, given
 * at the block's first key. p and ds [rows, keys], q and dout [rows, K], k and v [keys,
 * K]: ds = dout v^T (dp at first), dq += ds k, dv += p^T dout, dk += ds^T q. */
static void grad_block(const struct attention_grad *grad,
                       const struct attention_block *block, bool is_first,
                       struct blocks *blocks, float *dk, float *dv)
{
    const struct attention *a = &grad->a;
    const int64_t n_rows = attention_n_rows(a, block);
    const int64_t n_keys = block->keys.end - block->keys.begin;
    const int64_t q_at = attention_q_at(a, block);
    const int64_t kv_at = attention_kv_at(a, block);

    attention_scores(a, block, blocks->p);
    a->gemm->f32(false, true, n_rows, n_keys, a->K, grad->dout + q_at, a->row_stride,
                 a->v + kv_at, a->kv_stride, false, blocks->ds, ATTENTION_KEYS);
    for (int64_t r = 0; r < n_rows; r++) {
        grad_row(grad, block, r, blocks);
    }
    a->gemm->f32(false, false, n_rows, a->K, n_keys, blocks->ds, ATTENTION_KEYS,
                 a->k + kv_at, a->kv_stride, !is_first, grad->dq + q_at, a->row_stride);
    a->gemm->f32(true, false, n_keys, a->K, n_rows, blocks->p, ATTENTION_KEYS,
                 grad->dout + q_at, a->row_stride, true, dv, a->K);
    a->gemm->f32(true, false, n_keys, a->K, n_rows, blocks->ds, ATTENTION_KEYS,
                 a->q + q_at, a->row_stride, true, dk, a->K);
}

/* All keys for one block of rows. Rows that see nothing get dq = 0. Blocks of keys in
 * order, as in the forward run, so that the recomputed scores are the same bits. */
static void grad_rows(const struct attention_grad *grad, struct attention_block *block,
                      struct blocks *blocks, float *dk, float *dv)
{
    const struct attention *a = &grad->a;
    const struct grid_span seen = attention_visible(a, block->b, block->tokens);
    for (int64_t j = seen.begin; j < seen.end; j += ATTENTION_KEYS) {
        block->keys = (struct grid_span){j, base_min(j + ATTENTION_KEYS, seen.end)};
        grad_block(grad, block, j == seen.begin, blocks, dk + j * a->K, dv + j * a->K);
    }
    float *dq = grad->dq + attention_q_at(a, block);
    for (int64_t r = 0; r < attention_n_rows(a, block) && seen.begin >= seen.end; r++) {
        memset(dq + r * a->row_stride, 0, (size_t)a->K * sizeof(float));
    }
}

/* Parts with the most keys first: later segments of a sequence see more. Long tasks
 * begin early, so that no thread is left with one at the end. Only rows of keys that
 * the part sees are cleared and summed. */
static void grad_segment(const struct attention_grad *grad, int64_t task,
                         struct blocks *blocks)
{
    const struct attention *a = &grad->a;
    const struct segments *segments = &grad->segments;
    const int64_t sequence = task % (a->B * a->n_strands);
    const int64_t s = segments->n - 1 - task / (a->B * a->n_strands);
    const int64_t part = sequence * segments->n + s;
    struct attention_block block = {
        .b = sequence / a->n_strands,
        .strand = sequence % a->n_strands,
    };
    const struct grid_span tokens = grid_span(s, segments->tokens, a->T);
    const struct grid_span seen = attention_visible(a, block.b, tokens);
    const int64_t n_seen = base_max(0, seen.end - seen.begin);
    float *dk = grad->parts + part * 2 * a->T * a->K;
    float *dv = dk + a->T * a->K;

    grad->seen[part] = seen;
    memset(dk + seen.begin * a->K, 0, (size_t)(n_seen * a->K) * sizeof(float));
    memset(dv + seen.begin * a->K, 0, (size_t)(n_seen * a->K) * sizeof(float));
    for (int64_t i = tokens.begin; i < tokens.end; i += a->tokens_per_block) {
        block.tokens = (struct grid_span){i, base_min(i + a->tokens_per_block, a->T)};
        grad_rows(grad, &block, blocks, dk, dv);
    }
}

/* dk and dv of key j of sequence b and key-value head g. Parts lie by (sequence,
 * strand, segment); those of one key-value head are neighbours, as its strands are. In
 * order of their index, whatever the order in which they were made. */
static void sum_parts(const struct attention_grad *grad, int64_t b, int64_t j,
                      int64_t g)
{
    const struct attention *a = &grad->a;
    const int64_t strands = base_max(1, a->n_strands / a->G); /* of one group */
    const int64_t first = (b * a->n_strands + g * strands) * grad->segments.n;
    const int64_t at = (b * a->T + j) * a->kv_stride + g * a->K;
    memset(grad->dk + at, 0, (size_t)a->K * sizeof(float));
    memset(grad->dv + at, 0, (size_t)a->K * sizeof(float));
    for (int64_t part = first; part < first + strands * grad->segments.n; part++) {
        if (j < grad->seen[part].begin || j >= grad->seen[part].end) {
            continue;
        }
        const float *dk = grad->parts + (part * 2 * a->T + j) * a->K;
        a->native->row_axpy(1.0F, dk, a->K, grad->dk + at);
        a->native->row_axpy(1.0F, dk + a->T * a->K, a->K, grad->dv + at);
    }
}

/* Keys nobody sees (padding) end up 0. Every key has one task that writes it. */
static void sum_keys(const struct attention_grad *grad, int64_t task)
{
    const struct attention *a = &grad->a;
    const int64_t n_blocks = base_div_up(a->T, KEYS_PER_SUM);
    const struct grid_span keys = grid_span(task % n_blocks, KEYS_PER_SUM, a->T);
    for (int64_t j = keys.begin; j < keys.end; j++) {
        for (int64_t g = 0; g < a->G; g++) {
            sum_parts(grad, task / n_blocks, j, g);
        }
    }
}

/* Operands: q, k, v, first_key, out, lse, dout. Results: dq, dk, dv. */
static struct attention_grad operands(const struct kernel_call *call, int local_rank)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    float *array[N_ARRAYS];
    for (int i = 0; i < N_ARRAYS; i++) {
        array[i] = wide_copies_get(call, local_rank, arrays, i, rank->scratch);
    }
    struct attention_grad grad = {
        .a = attention_operands(call, local_rank, arrays, rank->scratch),
        .out = array[OUT],
        .lse = rank->inputs[5],
        .dout = array[DOUT],
        .dq = array[DQ],
        .dk = array[DK],
        .dv = array[DV],
    };
    grad.segments = cut_segments(&grad.a);
    unsigned char *scratch = rank->scratch;
    scratch += wide_copies_bytes(call->node, arrays, N_ARRAYS);
    grad.seen = (void *)scratch;
    grad.parts = (void *)(scratch + seen_bytes(&grad.segments));
    return grad;
}

static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    const int inner = inner_phase(call->node, phase);
    if (inner < 0 || inner > 1) {
        wide_copies_run(call, local_rank, arrays, N_ARRAYS, inner > 1,
                        call->ranks[local_rank].scratch, task);
        return;
    }
    const struct attention_grad grad = operands(call, local_rank);
    if (inner == 0) {
        grad_segment(&grad, task, thread_scratch);
    } else {
        sum_keys(&grad, task);
    }
}

const struct kernel kernel_attention_grad = {
    .supports = wide_takes,
    .scratch_bytes = scratch_bytes,
    .thread_bytes = thread_bytes,
    .n_phases = n_phases,
    .n_tasks = n_tasks,
    .run = run,
};
