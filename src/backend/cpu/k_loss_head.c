/*
 * k_loss_head - cross entropy and its gradient without ever holding [rows, V].
 *
 * The entries of loss_rows that have a weight are listed first; everything after walks
 * over chunks of that list, so entries without weight cost nothing. Per chunk:
 *
 *   z = softcap(hidden . table^T)             tile by tile, with max and sum of exp
 *   lse = log sum exp z                       the tiles combined in order, in f64
 *   dz = weight (exp(z - lse) (1 + 2 a lse) - (1 - s) onehot - s / V) softcap'  in place
 *   d_table (+)= dz^T . hidden                the first chunk overwrites, unless kept
 *   d_hidden = dz . table                     summed over fixed parts of the vocabulary
 *
 * The last three run on one tile after the other while it is in cache. a is z_loss, s
 * label smoothing. A bf16 table is widened tile by tile, bf16 hidden rows when they are
 * gathered; all sums are f32 or wider.
 */
#include "backend/cpu/k_loss_head.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/k_grid.h"
#include "backend/cpu/native.h"
#include "backend/cpu/plain.h"

/* One rank's operands and scratch, and the chunk at hand. */
struct work {
    struct loss_head head;
    const struct gemm *gemm;
    const struct native *native;
    const struct attributes *attributes; /* z_loss, label_smoothing */
    float cap;
    float *widened; /* [tile, D] of this thread, for a bf16 table */

    const unsigned char *hidden; /* [N, D] of hidden_dtype */
    const unsigned char *table;  /* [V, D] of table_dtype */
    enum dtype hidden_dtype, table_dtype;
    const int32_t *loss_rows; /* [C] */
    const int32_t *targets;   /* [C] */
    const float *weight;      /* [C] */
    double *loss_sum;
    float *token_loss, *lse; /* [C] */
    unsigned char *d_hidden; /* [N, D] of hidden_dtype, or NULL */
    float *d_table;          /* [V, D] or NULL */
    bool keeps;              /* d_table has a sum that stays */

    int64_t *n_real;
    int32_t *real;
    double *losses;
    float *gathered, *target, *stats, *logits, *partial;

    int64_t chunk;
    const int32_t *entry; /* [n]: places in loss_rows of this chunk's rows */
    int64_t n;            /* rows of this chunk, 0 when the list has ended */
};

/* Operands and results in the order of build_loss_head. With gradient there may be two
 * more operands: the d_table so far, and a flag whether it counts (without the flag it
 * does). */
static void take_operands(struct work *work, const struct node *node,
                          const struct kernel_rank *rank)
{
    work->hidden = rank->inputs[0];
    work->table = rank->inputs[1];
    work->hidden_dtype = node->inputs[0]->type.dtype;
    work->table_dtype = node->inputs[1]->type.dtype;
    work->attributes = &node->attributes;
    work->loss_rows = rank->inputs[2];
    work->targets = rank->inputs[3];
    work->weight = rank->inputs[4];
    work->loss_sum = rank->outputs[0];
    work->token_loss = rank->outputs[1];
    work->lse = rank->outputs[2];
    if (work->head.has_gradient) {
        work->d_hidden = rank->outputs[3];
    }
    if (work->head.has_table_gradient) {
        work->d_table = rank->outputs[4];
        const bool has_sum = node->n_inputs > 5;
        work->keeps = has_sum && (node->n_inputs < 7 || *(const bool *)rank->inputs[6]);
    }
}

/* Kept over the phases: the list of rows, the logits and what was found about them. One
 * block per rank and node; offsets are those of the layout. */
static void take_scratch(struct work *work, void *scratch)
{
    const struct loss_head *head = &work->head;
    unsigned char *base = scratch;
    work->n_real = (void *)(base + head->n_real_at);
    work->real = (void *)(base + head->real_at);
    work->losses = (void *)(base + head->losses_at);
    work->gathered = (void *)(base + head->gathered_at);
    work->target = (void *)(base + head->target_at);
    work->stats = (void *)(base + head->stats_at);
    work->logits = (void *)(base + head->logits_at);
    work->partial = (void *)(base + head->partial_at);
}

/* Only after PREPARE, which counts. How many rows a chunk has depends on the weights,
 * but only the layout decides how many chunks there can be. */
static void take_chunk(struct work *work, int64_t chunk)
{
    const struct grid_span rows = loss_head_chunk(&work->head, chunk, *work->n_real);
    work->chunk = chunk;
    work->entry = work->real + rows.begin;
    work->n = rows.end - rows.begin;
}

/* Columns of tile `tile`, of V. Vocabulary entries; the last tile may be narrower. */
static struct grid_span tile_span(const struct work *work, int64_t tile)
{
    return grid_span(tile, work->head.tile, work->head.V);
}

/* [chunk_rows, tile]. Tiles are apart in memory: rows of a [chunk, V] matrix would be a
 * power of two apart and fall on the same cache lines. */
static float *tile_logits(const struct work *work, int64_t tile)
{
    return work->logits + tile * work->head.chunk_rows * work->head.tile;
}

/* ---- steps ---- */

/* One task: the order of the list is the order of all later sums. Entries without
 * weight get loss and lse 0 here, as no later step touches them. */
static void list_real(struct work *work)
{
    int64_t n = 0;
    for (int64_t i = 0; i < work->head.C; i++) {
        if (work->weight[i] != 0.0F) {
            work->real[n++] = (int32_t)i;
        } else {
            work->token_loss[i] = 0;
            work->lse[i] = 0;
        }
    }
    *work->n_real = n;
}

/* Rows of hidden without loss keep the zeros written here. Task 0 makes the list, the
 * others clear a piece of d_hidden each (there are none without gradient). */
static void prepare(struct work *work, int64_t task)
{
    if (task == 0) {
        list_real(work);
        return;
    }
    const struct grid_span span =
        grid_span(task - 1, LOSS_HEAD_CLEAR, work->head.N * work->head.D);
    const size_t size = dtype_bytes(work->hidden_dtype);
    memset(work->d_hidden + (size_t)span.begin * size, 0,
           (size_t)(span.end - span.begin) * size);
}

/* Row of hidden of the chunk's row r, or -1 when there is no such row. */
static int64_t hidden_row(const struct work *work, int64_t r)
{
    const int64_t row = work->loss_rows[work->entry[r]];
    return row >= 0 && row < work->head.N ? row : -1;
}

/* Contiguous rows for the products; what is not a row of hidden reads as zeros. */
static void gather(const struct work *work, int64_t task)
{
    const int64_t D = work->head.D;
    const struct grid_span rows = grid_span(task, LOSS_HEAD_ROWS, work->n);
    for (int64_t r = rows.begin; r < rows.end; r++) {
        const int64_t row = hidden_row(work, r);
        if (row < 0) {
            memset(work->gathered + r * D, 0, (size_t)D * sizeof(float));
        } else {
            const size_t size = dtype_bytes(work->hidden_dtype);
            plain_cast(work->hidden_dtype, work->hidden + (size_t)(row * D) * size,
                       DTYPE_F32, work->gathered + r * D, D);
        }
        work->target[r] = 0; /* stays so when the target is no token */
    }
}

/* The rows of the table for these columns of the logits, [width, D] f32: in place, or
 * widened for this task. */
static const float *table_rows(const struct work *work, struct grid_span columns)
{
    const int64_t D = work->head.D;
    const unsigned char *rows =
        work->table + (size_t)(columns.begin * D) * dtype_bytes(work->table_dtype);
    if (work->table_dtype == DTYPE_F32) {
        return (const float *)(const void *)rows;
    }
    plain_cast(work->table_dtype, rows, DTYPE_F32, work->widened,
               (columns.end - columns.begin) * D);
    return work->widened;
}

/* One tile, from the product to its statistics while it is in cache. z [n, width] =
 * gathered [n, D] table[columns]^T. stats are what combine needs: the tiles are apart
 * until then. */
static void compute_logits(const struct work *work, int64_t tile)
{
    const struct loss_head *head = &work->head;
    const struct grid_span columns = tile_span(work, tile);
    const int64_t width = columns.end - columns.begin;
    float *z = tile_logits(work, tile);
    float *stats = work->stats + tile * head->chunk_rows * LOSS_HEAD_STATS;

    work->gemm->f32(false, true, work->n, width, head->D, work->gathered, head->D,
                    table_rows(work, columns), head->D, false, z, head->tile);
    for (int64_t r = 0; r < work->n; r++) {
        float *row = z + r * head->tile;
        if (work->cap > 0.0F) {
            work->native->softcap(row, work->cap, width, row);
        }
        const int64_t target = work->targets[work->entry[r]];
        if (target >= columns.begin && target < columns.end) {
            work->target[r] = row[target - columns.begin];
        }
        float *found = stats + LOSS_HEAD_STATS * r;
        found[0] = work->native->row_max(row, width);
        found[1] = work->native->row_sum_exp(row, found[0], width);
        if (work->attributes->label_smoothing > 0.0) {
            found[2] = work->native->row_sum(row, width);
        }
    }
}

/* What is added up for a row: the loss, and the further terms of the objective. z_sum:
 * the sum of the row's logits. */
static double objective(const struct work *work, double lse, double at_target,
                        double z_sum)
{
    const double smoothing = work->attributes->label_smoothing;
    double loss = lse - at_target + work->attributes->z_loss * lse * lse;
    if (smoothing > 0.0) {
        loss += smoothing * (at_target - z_sum / (double)work->head.V);
    }
    return loss;
}

/* Largest and sums over the tiles in order, in f64: their number grows with V. lse = M +
 * log sum over tiles of l_t exp(m_t - M), M = max m_t; loss = lse - z[target]. */
static void combine(const struct work *work, int64_t task)
{
    const struct grid_span rows = grid_span(task, LOSS_HEAD_ROWS, work->n);
    const int64_t tile_stats = work->head.chunk_rows * LOSS_HEAD_STATS;
    for (int64_t r = rows.begin; r < rows.end; r++) {
        const float *stats = work->stats + LOSS_HEAD_STATS * r;
        float largest = -INFINITY;
        for (int64_t tile = 0; tile < work->head.n_tiles; tile++) {
            const float found = stats[tile * tile_stats];
            largest = found > largest ? found : largest;
        }
        double sum = 0;
        double z_sum = 0;
        for (int64_t tile = 0; tile < work->head.n_tiles; tile++) {
            const float *found = stats + tile * tile_stats;
            sum += (double)found[1] * exp((double)found[0] - (double)largest);
            z_sum += work->attributes->label_smoothing > 0.0 ? (double)found[2] : 0.0;
        }
        const double lse = (double)largest + log(sum);
        const int64_t entry = work->entry[r];
        const double at_target = (double)work->target[r];
        work->losses[entry] = objective(work, lse, at_target, z_sum);
        work->token_loss[entry] = (float)(lse - at_target);
        work->lse[entry] = (float)lse;
    }
}

/* Logits of one tile into their gradient, see the head of this file; z is capped
 * already, and d softcap(x) / dx = 1 - (softcap(x) / cap)^2. */
static void compute_dlogits(const struct work *work, struct grid_span columns, float *z)
{
    const double smoothing = work->attributes->label_smoothing;
    const float floor = (float)(smoothing / (double)work->head.V);
    const float peak = (float)(1.0 - smoothing);
    for (int64_t r = 0; r < work->n; r++) {
        float *row = z + r * work->head.tile;
        const int64_t entry = work->entry[r];
        const float weight = work->weight[entry];
        const int64_t target = work->targets[entry];
        const float lse = work->lse[entry];
        const float gain = (float)(1.0 + 2.0 * work->attributes->z_loss * (double)lse);
        work->native->loss_grad_row(row, lse, gain, floor, weight, work->cap,
                                    columns.end - columns.begin);
        if (target >= columns.begin && target < columns.end) {
            const float ratio = work->cap > 0.0F ? work->target[r] / work->cap : 0.0F;
            row[target - columns.begin] -= peak * weight * (1.0F - ratio * ratio);
        }
    }
}

/* dz of one tile and both products with it. `partial` is this part's sum for d_hidden.
 * dz [n, width]: d_table[columns] [width, D] (+)= dz^T gathered, partial [n, D] (+)= dz
 * table[columns]. A tile of d_table belongs to one task, so chunks add to it in
 * order. */
static void grad_tile(const struct work *work, int64_t tile, bool is_first,
                      float *partial)
{
    const struct loss_head *head = &work->head;
    const int64_t D = head->D;
    const struct grid_span columns = tile_span(work, tile);
    const int64_t width = columns.end - columns.begin;
    float *dz = tile_logits(work, tile);
    /* NULL where the table is frozen. */
    float *d_table =
        head->has_table_gradient ? work->d_table + columns.begin * D : NULL;
    const bool overwrites = work->chunk == 0 && !work->keeps;

    if (work->n == 0) {
        if (d_table != NULL && overwrites) {
            memset(d_table, 0, (size_t)(width * D) * sizeof(float));
        }
        return;
    }
    compute_dlogits(work, columns, dz);
    if (d_table != NULL) {
        work->gemm->f32(true, false, width, D, work->n, dz, head->tile, work->gathered,
                        D, !overwrites, d_table, D);
    }
    work->gemm->f32(false, false, work->n, D, width, dz, head->tile,
                    table_rows(work, columns), D, !is_first, partial, D);
}

/* Neighbouring tiles, in order, into one sum of [chunk, D]. Parts exist so that several
 * threads can add to d_hidden: each sums its own tiles. */
static void grad_part(const struct work *work, int64_t part)
{
    const struct loss_head *head = &work->head;
    const struct grid_span tiles = grid_span(part, head->tiles_per_part, head->n_tiles);
    float *partial = work->partial + part * head->chunk_rows * head->D;
    for (int64_t tile = tiles.begin; tile < tiles.end; tile++) {
        grad_tile(work, tile, tile == tiles.begin, partial);
    }
}

/* sums[i] += the parts of d_hidden for the chunk's row r, in order. */
static void add_parts(const struct work *work, int64_t r, struct grid_span columns,
                      float *sums)
{
    const struct loss_head *head = &work->head;
    for (int64_t part = 0; part < head->n_parts; part++) {
        const float *from =
            work->partial + (part * head->chunk_rows + r) * head->D + columns.begin;
        work->native->row_axpy(1.0F, from, columns.end - columns.begin, sums);
    }
}

/* All rows of some columns in one task: a hidden row may be listed twice. Parts are
 * added in order, rows in the order of the list; what named no row of hidden is left
 * out. */
static void scatter(const struct work *work, int64_t task)
{
    const int64_t D = work->head.D;
    const struct grid_span columns = grid_span(task, LOSS_HEAD_COLUMNS, D);
    const int64_t length = columns.end - columns.begin;
    const enum dtype dtype = work->hidden_dtype;
    for (int64_t r = 0; r < work->n; r++) {
        const int64_t row = hidden_row(work, r);
        if (row < 0) {
            continue;
        }
        void *target =
            work->d_hidden + (size_t)(row * D + columns.begin) * dtype_bytes(dtype);
        if (dtype == DTYPE_F32) {
            add_parts(work, r, columns, target);
            continue;
        }
        /* The sum of the parts is rounded once, behind what the row has already. */
        float sums[LOSS_HEAD_COLUMNS];
        plain_cast(dtype, target, DTYPE_F32, sums, length);
        add_parts(work, r, columns, sums);
        plain_cast(DTYPE_F32, sums, dtype, target, length);
    }
}

/* In f64 and in the order of the list, whatever the chunks were. One task. */
static void sum_losses(const struct work *work)
{
    double sum = 0;
    for (int64_t i = 0; i < *work->n_real; i++) {
        const int32_t entry = work->real[i];
        sum += (double)work->weight[entry] * work->losses[entry];
    }
    *work->loss_sum = sum;
}

/* ---- the kernel ---- */

/* Here and below the layout is made anew: it is a pure function of the node and the
 * setting. */
static size_t scratch_bytes(const struct node *node, size_t bytes)
{
    return loss_head_layout(node, bytes).total_bytes;
}

static int n_phases(const struct node *node, size_t bytes)
{
    const struct loss_head head = loss_head_layout(node, bytes);
    return loss_head_n_phases(&head);
}

static int64_t n_tasks(const struct node *node, int phase, size_t bytes)
{
    const struct loss_head head = loss_head_layout(node, bytes);
    return loss_head_n_tasks(&head, loss_head_phase(&head, phase).step);
}

/* The layout is computed anew for each task: some divisions against millions of
 * products. */
static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    struct work work = {
        .head = loss_head_layout(call->node, call->loss_head_bytes),
        .gemm = call->gemm,
        .native = call->native,
        .cap = (float)call->node->attributes.value,
        .widened = thread_scratch,
    };
    const struct loss_head_phase at = loss_head_phase(&work.head, phase);
    take_operands(&work, call->node, rank);
    take_scratch(&work, rank->scratch);
    if (at.step != LOSS_HEAD_PREPARE) {
        take_chunk(&work, at.chunk);
    }
    switch (at.step) {
    case LOSS_HEAD_PREPARE:
        prepare(&work, task);
        break;
    case LOSS_HEAD_GATHER:
        gather(&work, task);
        break;
    case LOSS_HEAD_LOGITS:
        if (work.n > 0) {
            compute_logits(&work, task);
        }
        break;
    case LOSS_HEAD_COMBINE:
        combine(&work, task);
        break;
    case LOSS_HEAD_GRAD:
        grad_part(&work, task);
        break;
    case LOSS_HEAD_SCATTER:
        scatter(&work, task);
        break;
    case LOSS_HEAD_SUM:
        sum_losses(&work);
        break;
    }
}

/* With parts of the vocabulary on each rank, maxima and sums have to meet in the middle
 * of the op: the definition does that. */
static bool supports(const struct node *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        const enum dtype dtype = node->inputs[i]->type.dtype;
        const bool may_be_bf16 = i < 2; /* hidden and table */
        if (dtype_is_float(dtype) && dtype != DTYPE_F32 &&
            !(may_be_bf16 && dtype == DTYPE_BF16)) {
            return false;
        }
    }
    return !kernel_is_split_by_rows(node->inputs[1]);
}

/* The rows of one tile of a bf16 table. */
static size_t thread_bytes(const struct node *node)
{
    if (node->inputs[1]->type.dtype == DTYPE_F32) {
        return 0;
    }
    /* Tiles do not depend on the setting. */
    const struct loss_head head = loss_head_layout(node, 1);
    return (size_t)(head.tile * head.D) * sizeof(float);
}

const struct kernel kernel_loss_head = {
    .supports = supports,
    .scratch_bytes = scratch_bytes,
    .thread_bytes = thread_bytes,
    .n_phases = n_phases,
    .n_tasks = n_tasks,
    .run = run,
};
