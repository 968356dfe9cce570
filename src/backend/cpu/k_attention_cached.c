/*
 * k_attention_cached - attention over a cache, in blocks of slots with a running softmax.
 *
 * Slots hold keys in any order (a ring buffer), so which of them a query sees is asked of
 * each slot's position; blocks that nobody sees are passed over. As in k_attention a
 * block of rows holds all heads of one key-value head where their rows are at one
 * stride: with one key-value head, or one token. Else it holds rows of one head.
 *
 * With one token there are few rows and perhaps many slots: then parts of the slots are
 * tasks of their own, and a second phase joins them,
 *
 *     out = sum of exp(m_i - m) out_i / sum of exp(m_i - m) l_i,  m = max m_i
 *
 * with m_i the largest score of part i and l_i its sum of exp(score - m_i).
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

enum {
    ROWS = 128,              /* most in a block of scores */
    TOKENS_OF_ONE_HEAD = 64, /* fewer: the mask cuts through that many tokens */
    SLOTS = 256,             /* in a block of scores */
    SLOTS_OF_PART = 1024,    /* a multiple of SLOTS */
    FEW_ROWS = 16, /* up to here scores are dot products, and nothing is packed */
};

struct cached {
    int64_t B, T, H, G, K, S;
    int64_t n_strands;      /* G, or H where a block holds rows of one head */
    int64_t rows_per_token; /* H / G, or 1 */
    int64_t tokens_per_block;
    int64_t row_stride; /* from row to row of q and out */
    int64_t n_blocks;   /* of tokens */
    int64_t n_parts;    /* of slots */
    int64_t window;     /* 0: none */
    float scale;
    const float *q;              /* [B, T, H, K] */
    const float *k, *v;          /* [B, S, G, K] */
    const int32_t *position;     /* [B, T] */
    const int32_t *key_position; /* [B, S] */
    float *out;                  /* [B, T, H, K] */
    const struct native *native;
    const struct gemm *gemm;
};

/* Per thread. */
struct running {
    float scores[ROWS * SLOTS];
    float largest[ROWS]; /* m; -infinity: nothing seen yet */
    float sum[ROWS];     /* l */
};

/* Rows of one strand and one block of tokens, of sequence b. */
struct rows {
    int64_t b, strand;
    struct grid_span tokens;
    int64_t n;
};

/* Shapes and attributes only. */
static struct cached shape_of(const struct node *node)
{
    const int64_t *q = node->inputs[0]->type.shape.dim;
    const int64_t *k = node->inputs[1]->type.shape.dim;
    const int64_t R = q[2] / k[2];
    const bool is_shared = (q[1] == 1 || k[2] == 1) && R <= ROWS;
    struct cached a = {
        .B = q[0],
        .T = q[1],
        .H = q[2],
        .G = k[2],
        .K = q[3],
        .S = k[1],
        .n_strands = is_shared ? k[2] : q[2],
        .rows_per_token = is_shared ? R : 1,
        .tokens_per_block = is_shared ? ROWS / R : TOKENS_OF_ONE_HEAD,
        .row_stride = is_shared ? q[3] : q[2] * q[3],
        .window = node->attributes.window,
        .scale = (float)node->attributes.value,
    };
    a.n_blocks = base_div_up(a.T, a.tokens_per_block);
    a.n_parts = a.T == 1 ? base_div_up(a.S, SLOTS_OF_PART) : 1;
    return a;
}

/* And the operands of one rank. */
static struct cached operands_of(const struct kernel_call *call,
                                 const struct kernel_rank *rank)
{
    struct cached a = shape_of(call->node);
    a.q = rank->inputs[0];
    a.k = rank->inputs[1];
    a.v = rank->inputs[2];
    a.position = rank->inputs[3];
    a.key_position = rank->inputs[4];
    a.out = rank->outputs[0];
    a.native = call->native;
    a.gemm = call->gemm;
    return a;
}

/* Index of the first row in q and out. */
static int64_t rows_at(const struct cached *a, const struct rows *rows)
{
    const int64_t token = rows->b * a->T + rows->tokens.begin;
    return (token * a->H + rows->strand * a->rows_per_token) * a->K;
}

/* Index of a slot of the strand's key-value head in k and v. */
static int64_t slot_at(const struct cached *a, const struct rows *rows, int64_t slot)
{
    const int64_t g = rows->strand * a->rows_per_token / (a->H / a->G);
    return ((rows->b * a->S + slot) * a->G + g) * a->K;
}

/* Positions begin .. end - 1 that token i sees; empty for padding (position -1). */
static struct grid_span seen_positions(const struct cached *a, int64_t b, int64_t i)
{
    const int64_t position = a->position[b * a->T + i];
    const int64_t begin = a->window > 0 ? base_max(0, position - a->window + 1) : 0;
    return (struct grid_span){begin, position + 1};
}

/* Whether any token of the block sees any of these slots. */
static bool is_seen(const struct cached *a, const struct rows *rows,
                    struct grid_span slots)
{
    struct grid_span all = {INT32_MAX, 0};
    for (int64_t i = rows->tokens.begin; i < rows->tokens.end; i++) {
        const struct grid_span seen = seen_positions(a, rows->b, i);
        if (seen.begin < seen.end) {
            all.begin = base_min(all.begin, seen.begin);
            all.end = base_max(all.end, seen.end);
        }
    }
    const int32_t *key = a->key_position + rows->b * a->S;
    for (int64_t s = slots.begin; s < slots.end; s++) {
        if (key[s] >= all.begin && key[s] < all.end) {
            return true;
        }
    }
    return false;
}

/* scores [rows, SLOTS] = q . k; the scale comes with the mask. */
static void make_scores(const struct cached *a, const struct rows *rows,
                        struct grid_span slots, float *scores)
{
    const float *q = a->q + rows_at(a, rows);
    const float *k = a->k + slot_at(a, rows, slots.begin);
    const int64_t n = slots.end - slots.begin;
    if (rows->n <= FEW_ROWS) {
        a->native->dots_f32(q, a->row_stride, rows->n, k, a->G * a->K, n, a->K, scores,
                            SLOTS);
    } else {
        a->gemm->f32(false, true, rows->n, n, a->K, q, a->row_stride, k, a->G * a->K,
                     false, scores, SLOTS);
    }
}

/* Scales a row of scores and puts -infinity where `seen` does not see the slot's key;
 * false: it sees none. */
static bool mask_row(const int32_t *key, int64_t n, struct grid_span seen, float scale,
                     float *scores)
{
    const int32_t begin = (int32_t)seen.begin;
    const int32_t end = (int32_t)seen.end;
    bool sees = false;
    for (int64_t s = 0; s < n; s++) {
        const bool is_visible = key[s] >= begin && key[s] < end;
        scores[s] = is_visible ? scores[s] * scale : -INFINITY;
        sees = sees || is_visible;
    }
    return sees;
}

/* Scores of row r into exp(score - m), 0 where unseen. When m grows, the sum and `out`,
 * the row of sums so far (NULL: nothing there yet), shrink by exp(m_old - m). */
static void softmax_row(const struct cached *a, const struct rows *rows, int64_t r,
                        struct grid_span slots, struct running *running, float *out)
{
    const int64_t n = slots.end - slots.begin;
    float *scores = running->scores + r * SLOTS;
    const struct grid_span seen =
        seen_positions(a, rows->b, rows->tokens.begin + r / a->rows_per_token);
    const int32_t *key = a->key_position + rows->b * a->S + slots.begin;
    if (!mask_row(key, n, seen, a->scale, scores)) {
        memset(scores, 0, (size_t)n * sizeof(float));
        return;
    }
    const float old = running->largest[r];
    const float found = a->native->row_max(scores, n);
    const float largest = found > old ? found : old;
    const float shrink = expf(old - largest);
    if (shrink != 1.0F && out != NULL) {
        a->native->row_scale(out, shrink, a->K);
    }
    running->sum[r] = running->sum[r] * shrink + a->native->row_exp(scores, largest, n);
    running->largest[r] = largest;
}

/* Unnormalised results of the rows over some slots: out [n, K] with the given stride, m
 * and l in `running`. out is zeros where no block is seen. */
static void walk(const struct cached *a, const struct rows *rows,
                 struct grid_span slots, struct running *running, float *out,
                 int64_t out_stride)
{
    for (int64_t r = 0; r < rows->n; r++) {
        running->largest[r] = -INFINITY;
        running->sum[r] = 0;
    }
    bool is_first = true;
    for (int64_t j = slots.begin; j < slots.end; j += SLOTS) {
        const struct grid_span block = {j, base_min(j + SLOTS, slots.end)};
        if (!is_seen(a, rows, block)) {
            continue;
        }
        make_scores(a, rows, block, running->scores);
        for (int64_t r = 0; r < rows->n; r++) {
            softmax_row(a, rows, r, block, running,
                        is_first ? NULL : out + r * out_stride);
        }
        a->gemm->f32(false, false, rows->n, a->K, block.end - block.begin,
                     running->scores, SLOTS, a->v + slot_at(a, rows, j), a->G * a->K,
                     !is_first, out, out_stride);
        is_first = false;
    }
    for (int64_t r = 0; r < rows->n && is_first; r++) {
        memset(out + r * out_stride, 0, (size_t)a->K * sizeof(float));
    }
}

/* A part's results in the node's scratch: m [R], l [R], out [R, K]. */
static float *part_results(const struct cached *a, const struct kernel_rank *rank,
                           const struct rows *rows, int64_t part)
{
    const int64_t at = (rows->b * a->n_strands + rows->strand) * a->n_parts + part;
    return (float *)rank->scratch + at * a->rows_per_token * (a->K + 2);
}

/* Phase 0: task = ((b * strands + strand) * blocks + block) * parts + part. */
static void run_part(const struct cached *a, const struct kernel_rank *rank,
                     int64_t task, struct running *running)
{
    const int64_t part = task % a->n_parts;
    const int64_t block = task / a->n_parts % a->n_blocks;
    const int64_t strand = task / a->n_parts / a->n_blocks;
    struct rows rows = {
        .b = strand / a->n_strands,
        .strand = strand % a->n_strands,
        .tokens = grid_span(block, a->tokens_per_block, a->T),
    };
    rows.n = (rows.tokens.end - rows.tokens.begin) * a->rows_per_token;
    if (a->n_parts > 1) {
        float *results = part_results(a, rank, &rows, part);
        walk(a, &rows, grid_span(part, SLOTS_OF_PART, a->S), running,
             results + 2 * rows.n, a->K);
        memcpy(results, running->largest, (size_t)rows.n * sizeof(float));
        memcpy(results + rows.n, running->sum, (size_t)rows.n * sizeof(float));
        return;
    }
    float *out = a->out + rows_at(a, &rows);
    walk(a, &rows, (struct grid_span){0, a->S}, running, out, a->row_stride);
    for (int64_t r = 0; r < rows.n; r++) {
        /* 0 only where nothing was seen: the largest score itself adds 1. */
        if (running->sum[r] > 0.0F) {
            a->native->row_scale(out + r * a->row_stride, 1.0F / running->sum[r], a->K);
        }
    }
}

/* Phase 1, of one token: task = b * strands + strand. Parts are joined in order. */
static void join_parts(const struct cached *a, const struct kernel_rank *rank,
                       int64_t task)
{
    const struct rows rows = {.b = task / a->n_strands,
                              .strand = task % a->n_strands,
                              .n = a->rows_per_token};
    const int64_t n = rows.n;
    for (int64_t r = 0; r < n; r++) {
        float largest = -INFINITY;
        for (int64_t part = 0; part < a->n_parts; part++) {
            largest = fmaxf(largest, part_results(a, rank, &rows, part)[r]);
        }
        float *out = a->out + rows_at(a, &rows) + r * a->row_stride;
        memset(out, 0, (size_t)a->K * sizeof(float));
        float sum = 0;
        for (int64_t part = 0; part < a->n_parts; part++) {
            const float *results = part_results(a, rank, &rows, part);
            if (results[n + r] > 0.0F) {
                const float share = expf(results[r] - largest);
                sum += share * results[n + r];
                a->native->row_axpy(share, results + 2 * n + r * a->K, a->K, out);
            }
        }
        if (sum > 0.0F) {
            a->native->row_scale(out, 1.0F / sum, a->K);
        }
    }
}

static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct cached a = operands_of(call, rank);
    if (phase == 0) {
        run_part(&a, rank, task, thread_scratch);
    } else {
        join_parts(&a, rank, task);
    }
}

static size_t thread_bytes(const struct node *node)
{
    (void)node;
    return sizeof(struct running);
}

static size_t scratch_bytes(const struct node *node, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    const struct cached a = shape_of(node);
    const int64_t rows = a.B * a.n_strands * a.n_parts * a.rows_per_token;
    return a.n_parts > 1 ? (size_t)(rows * (a.K + 2)) * sizeof(float) : 0;
}

static int n_phases(const struct node *node, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    return shape_of(node).n_parts > 1 ? 2 : 1;
}

static int64_t n_tasks(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    const struct cached a = shape_of(node);
    const int64_t strands = a.B * a.n_strands;
    return phase == 0 ? strands * a.n_blocks * a.n_parts : strands;
}

const struct kernel kernel_attention_cached = {.scratch_bytes = scratch_bytes,
                                               .thread_bytes = thread_bytes,
                                               .n_phases = n_phases,
                                               .n_tasks = n_tasks,
                                               .run = run};
