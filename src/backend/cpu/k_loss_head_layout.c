/*
 * k_loss_head_layout - chunk size, tiles, parts and scratch of the loss head.
 *
 * A chunk is as large as the setting allows, because each chunk reads the table and
 * updates d_table once, and these passes over memory are what small chunks pay for. It
 * is not larger than 512 rows: by then the products dominate, and small vocabularies
 * stay in cache.
 */
#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_loss_head.h"

enum {
    MAX_CHUNK_ROWS = 512,
    MIN_TILE = 128,
    MAX_TILE = 512,
    MIN_PARTS = 16,
    MAX_PARTS = 64,
    PARTS_SHARE = 12, /* the parts may take a 12th of what the logits take */
    ROW_BLOCK = 8,    /* chunks are whole blocks of the product's kernel */
};

/* Takes `bytes` of scratch, aligned. On a cache line, so that neighbours in scratch do
 * not share one. */
static size_t take(size_t *total, int64_t bytes)
{
    const size_t at = *total;
    *total += (size_t)base_round_up(bytes, 64);
    return at;
}

/*
 * Tiles: wide enough for the product to run at full speed, narrow enough that a tile of
 * logits and its rows of the table stay in the second cache, and at least some 32 of
 * them for small vocabularies, as they are the tasks. Parts: each costs a [chunk, D]
 * sum, and bounds how many threads work on gradients.
 */
static void cut_vocabulary(struct loss_head *head)
{
    const int64_t wanted = base_round_up(base_div_up(head->V, 64), 16);
    head->tile = base_max(MIN_TILE, base_min(wanted, MAX_TILE));
    head->n_tiles = base_div_up(head->V, head->tile);

    const int64_t affordable = head->V / (PARTS_SHARE * head->D);
    const int64_t n_parts = base_max(MIN_PARTS, base_min(affordable, MAX_PARTS));
    head->tiles_per_part = base_div_up(head->n_tiles, n_parts);
    head->n_parts = base_div_up(head->n_tiles, head->tiles_per_part);
}

/* As many rows as the setting allows logits for, at least one. */
static void cut_rows(struct loss_head *head, size_t bytes)
{
    int64_t rows = (int64_t)(bytes / sizeof(float)) / (head->n_tiles * head->tile);
    rows = base_min(rows, MAX_CHUNK_ROWS);
    rows = rows > ROW_BLOCK ? rows / ROW_BLOCK * ROW_BLOCK : rows;
    head->chunk_rows = base_max(1, base_min(rows, head->C));
    head->n_chunks = base_max(1, base_div_up(head->C, head->chunk_rows));
}

/* Equal chunks rather than full ones and a rest: a small last product would run
 * slower. */
struct grid_span loss_head_chunk(const struct loss_head *head, int64_t chunk,
                                 int64_t n_rows)
{
    const int64_t n_chunks = base_max(1, base_div_up(n_rows, head->chunk_rows));
    const int64_t even = base_round_up(base_div_up(n_rows, n_chunks), ROW_BLOCK);
    return grid_span(chunk, base_min(even, head->chunk_rows), n_rows);
}

/* What is asked for first lies first: the list and the losses, which live through all
 * phases, then what each chunk uses anew. */
struct loss_head loss_head_layout(const struct node *node, size_t bytes)
{
    struct loss_head head = {
        .N = node->inputs[0]->type.shape.dim[0],
        .D = node->inputs[0]->type.shape.dim[1],
        .V = node->inputs[1]->type.shape.dim[0],
        .C = node->inputs[2]->type.shape.dim[0],
        .has_gradient = node->attributes.with_gradient,
        .has_table_gradient =
            node->attributes.with_gradient && !node->attributes.freezes_table,
    };
    cut_vocabulary(&head);
    cut_rows(&head, bytes);

    const int64_t c = head.chunk_rows;
    size_t total = 0;
    head.n_real_at = take(&total, sizeof(int64_t));
    head.real_at = take(&total, head.C * (int64_t)sizeof(int32_t));
    head.losses_at = take(&total, head.C * (int64_t)sizeof(double));
    head.gathered_at = take(&total, c * head.D * (int64_t)sizeof(float));
    head.target_at = take(&total, c * (int64_t)sizeof(float));
    head.stats_at =
        take(&total, head.n_tiles * c * LOSS_HEAD_STATS * (int64_t)sizeof(float));
    head.logits_at =
        take(&total, head.n_tiles * c * head.tile * (int64_t)sizeof(float));
    head.partial_at = total;
    if (head.has_gradient) {
        take(&total, head.n_parts * c * head.D * (int64_t)sizeof(float));
    }
    head.total_bytes = total;
    return head;
}

/* GATHER, LOGITS, COMBINE, and with gradient GRAD and SCATTER. */
static int phases_per_chunk(const struct loss_head *head)
{
    return head->has_gradient ? 5 : 3;
}

/* From shapes alone: chunks that turn out empty cost their barriers. */
int loss_head_n_phases(const struct loss_head *head)
{
    return 2 + (int)head->n_chunks * phases_per_chunk(head);
}

/* First PREPARE, last SUM, between them the steps of one chunk after the other; the
 * steps are neighbours in the enum. */
struct loss_head_phase loss_head_phase(const struct loss_head *head, int phase)
{
    if (phase == 0) {
        return (struct loss_head_phase){LOSS_HEAD_PREPARE, 0};
    }
    if (phase == loss_head_n_phases(head) - 1) {
        return (struct loss_head_phase){LOSS_HEAD_SUM, 0};
    }
    const int step = (phase - 1) % phases_per_chunk(head);
    return (struct loss_head_phase){
        .step = (enum loss_head_step)(LOSS_HEAD_GATHER + step),
        .chunk = (phase - 1) / phases_per_chunk(head),
    };
}

/* For the largest chunk; tasks beyond a smaller one get an empty span. */
int64_t loss_head_n_tasks(const struct loss_head *head, enum loss_head_step step)
{
    switch (step) {
    case LOSS_HEAD_PREPARE:
        return 1 + (head->has_gradient ? base_div_up(head->N * head->D, LOSS_HEAD_CLEAR)
                                       : 0);
    case LOSS_HEAD_GATHER:
    case LOSS_HEAD_COMBINE:
        return base_div_up(head->chunk_rows, LOSS_HEAD_ROWS);
    case LOSS_HEAD_LOGITS:
        return head->n_tiles;
    case LOSS_HEAD_GRAD:
        return head->n_parts;
    case LOSS_HEAD_SCATTER:
        return base_div_up(head->D, LOSS_HEAD_COLUMNS);
    case LOSS_HEAD_SUM:
        return 1;
    }
    UNREACHABLE();
}
