/*
 * k_loss_head - how the loss head is cut: chunks of rows, tiles and parts of the
 * vocabulary, and where each piece lies in scratch.
 */
#ifndef BACKEND_CPU_K_LOSS_HEAD_H
#define BACKEND_CPU_K_LOSS_HEAD_H

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"

/* The logits of a chunk take at most `bytes` (a row at least), what stands beside them
 * about a tenth of that, plus 12 bytes for each entry of loss_rows. Offsets in
 * bytes. */
struct loss_head {
    int64_t N, D, V, C;
    bool has_gradient;
    bool has_table_gradient; /* the table is not frozen */
    int64_t chunk_rows;      /* rows whose logits exist at a time */
    int64_t n_chunks;
    int64_t tile; /* logits per row in a tile; the last tile may be narrower */
    int64_t n_tiles;
    int64_t tiles_per_part; /* d_hidden is a sum over parts of the vocabulary */
    int64_t n_parts;

    size_t n_real_at;   /* i64: entries with a weight */
    size_t real_at;     /* i32 [C]: their places in loss_rows, ascending */
    size_t losses_at;   /* f64 [C] by place */
    size_t gathered_at; /* f32 [chunk, D]: hidden rows */
    size_t target_at;   /* f32 [chunk]: logit of the target */
    size_t stats_at;    /* f32 [n_tiles, chunk, LOSS_HEAD_STATS] */
    size_t logits_at;   /* f32 [n_tiles, chunk, tile]: a tile is one piece of memory */
    size_t partial_at;  /* f32 [n_parts, chunk, D], with gradient */
    size_t total_bytes;
};

struct loss_head loss_head_layout(const struct node *node, size_t bytes);

/* The rows of a chunk when n_rows have loss: as few chunks as fit them, of equal size,
 * as each has to pass over the whole table. Empty after the last. */
struct grid_span loss_head_chunk(const struct loss_head *head, int64_t chunk,
                                 int64_t n_rows);

/* What a phase does; the five of a chunk (three without gradient) come once per
 * chunk. */
enum loss_head_step {
    LOSS_HEAD_PREPARE, /* list the real entries, clear d_hidden */
    LOSS_HEAD_GATHER,  /* hidden rows of the chunk */
    LOSS_HEAD_LOGITS,  /* a tile: product, softcap, largest and sum per row */
    LOSS_HEAD_COMBINE, /* lse and loss per row */
    LOSS_HEAD_GRAD,    /* a part: dlogits, d_table, its share of d_hidden */
    LOSS_HEAD_SCATTER, /* columns of d_hidden: the parts' sum */
    LOSS_HEAD_SUM,     /* loss_sum */
};

struct loss_head_phase {
    enum loss_head_step step;
    int64_t chunk;
};

int loss_head_n_phases(const struct loss_head *head);
struct loss_head_phase loss_head_phase(const struct loss_head *head, int phase);
int64_t loss_head_n_tasks(const struct loss_head *head, enum loss_head_step step);

/* Of a tile's row: largest logit, sum of exp above it, sum of logits (where labels are
 * smoothed). */
enum { LOSS_HEAD_STATS = 3 };

/* Rows per task of GATHER and COMBINE; columns per task of SCATTER; elements per task
 * of clearing d_hidden. */
enum { LOSS_HEAD_ROWS = 16, LOSS_HEAD_COLUMNS = 64, LOSS_HEAD_CLEAR = 65536 };

#endif
