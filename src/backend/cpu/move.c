/*
 * move - a strided copy in tiles.
 *
 * The innermost dimension of the target are the columns. Where the source does not run
 * along them (a transpose), the dimension along which it does run are the rows, and
 * both are walked in tiles that fit the first cache; otherwise a row is one run.
 */
#include "backend/cpu/move.h"

#include <string.h>

enum {
    TASK_ELEMENTS = 16384,
    /* Tiles of a transpose: each column is a line of the source, read once for its
     * rows. */
    TILE_ROWS = 32,
    TILE_COLUMNS = 256,
};

/* ---- from strides to tiles ---- */

/* One dimension of the box while it is being simplified. */
struct axis {
    int64_t length, source, target;
};

/* The last dimension runs with stride 1. */
void move_strides(const struct shape *shape, int64_t strides[SHAPE_MAX_RANK])
{
    int64_t stride = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape->dim[i];
    }
}

/* Drops dimensions of length 1 and merges neighbours; returns how many are left. Two
 * neighbours are one run where the outer one's stride is the inner one's times its
 * length, on both sides; a broadcast (strides 0) merges by the same rule. */
static int simplify(int rank, const int64_t *dim, const int64_t *source_strides,
                    const int64_t *target_strides, struct axis *axes)
{
    int n = 0;
    for (int i = 0; i < rank; i++) {
        if (dim[i] == 1) {
            continue;
        }
        const struct axis axis = {dim[i], source_strides[i], target_strides[i]};
        struct axis *before = n > 0 ? &axes[n - 1] : NULL;
        if (before != NULL && before->source == axis.source * axis.length &&
            before->target == axis.target * axis.length) {
            before->length *= axis.length;
            before->source = axis.source;
            before->target = axis.target;
        } else {
            axes[n++] = axis;
        }
    }
    return n;
}

/* Index of the dimension that the source runs along, or -1. None where the source is a
 * broadcast or has gaps in every dimension. */
static int find_source_run(const struct axis *axes, int n)
{
    for (int i = 0; i < n; i++) {
        if (axes[i].source == 1) {
            return i;
        }
    }
    return -1;
}

/* A task is about TASK_ELEMENTS: part of one long run, or many small tiles. */
static void choose_tiles(struct move *move, bool is_transposed)
{
    if (is_transposed) {
        move->tile_rows = base_min(TILE_ROWS, move->rows);
        move->tile_columns = base_min(TILE_COLUMNS, move->columns);
    } else {
        move->tile_rows = 1;
        move->tile_columns = base_min(TASK_ELEMENTS, move->columns);
    }
    move->n_row_tiles = base_div_up(move->rows, move->tile_rows);
    move->n_column_tiles = base_div_up(move->columns, move->tile_columns);
    move->tiles_per_task =
        base_max(1, TASK_ELEMENTS / (move->tile_rows * move->tile_columns));
}

/* After merging, the last axis are the columns. A box of one element has no axes and
 * stays 1 x 1. */
struct move move_make(size_t element_bytes, int rank, const int64_t *dim,
                      const int64_t *source_strides, const int64_t *target_strides)
{
    ASSERT(0 <= rank && rank <= SHAPE_MAX_RANK);
    struct axis axes[SHAPE_MAX_RANK];
    int n = simplify(rank, dim, source_strides, target_strides, axes);
    struct move move = {
        .element_bytes = element_bytes,
        .rows = 1,
        .columns = 1,
        .source_column = 1,
        .target_column = 1,
        .n_outer_boxes = 1,
    };
    if (n > 0) {
        n--;
        move.columns = axes[n].length;
        move.source_column = axes[n].source;
        move.target_column = axes[n].target;
    }
    /* What is neither column nor row is walked outside, one tile after the other. */
    int row_axis = n - 1; /* the next dimension, unless the source runs elsewhere */
    const bool is_strided = move.source_column != 0 && move.source_column != 1;
    const int run = find_source_run(axes, n);
    const bool is_transposed = is_strided && run >= 0;
    if (is_transposed) {
        row_axis = run;
    }
    for (int i = 0; i < n; i++) {
        if (i == row_axis) {
            move.rows = axes[i].length;
            move.source_row = axes[i].source;
            move.target_row = axes[i].target;
        } else {
            move.outer[move.n_outer] = axes[i].length;
            move.source_outer[move.n_outer] = axes[i].source;
            move.target_outer[move.n_outer] = axes[i].target;
            move.n_outer_boxes *= axes[i].length;
            move.n_outer++;
        }
    }
    choose_tiles(&move, is_transposed);
    return move;
}

/* The last tile of a row or column may be smaller. */
static int64_t count_tiles(const struct move *move)
{
    return move->n_outer_boxes * move->n_row_tiles * move->n_column_tiles;
}

int64_t move_n_tasks(const struct move *move)
{
    return base_div_up(count_tiles(move), move->tiles_per_task);
}

/* ---- copying ---- */

/* One tile: `n_rows` rows of `n_columns` elements, along the target. */
#define TILE(TYPE)                                                                     \
    static void tile_##TYPE(const struct move *move, const void *source, void *target, \
                            int64_t n_rows, int64_t n_columns)                         \
    {                                                                                  \
        const int64_t source_step = move->source_column;                               \
        const int64_t target_step = move->target_column;                               \
        for (int64_t row = 0; row < n_rows; row++) {                                   \
            const TYPE *from = (const TYPE *)source + row * move->source_row;          \
            TYPE *to = (TYPE *)target + row * move->target_row;                        \
            if (source_step == 0 && target_step == 1) {                                \
                const TYPE x = *from;                                                  \
                for (int64_t i = 0; i < n_columns; i++) {                              \
                    to[i] = x;                                                         \
                }                                                                      \
            } else {                                                                   \
                for (int64_t i = 0; i < n_columns; i++) {                              \
                    to[i * target_step] = from[i * source_step];                       \
                }                                                                      \
            }                                                                          \
        }                                                                              \
    }

TILE(uint8_t)
TILE(uint16_t)
TILE(uint32_t)
TILE(uint64_t)

/* Runs on both sides are memcpy; the rest is copied by element size: what the bytes
 * mean does not matter. Sizes beyond the cases do not occur: dtypes have 1, 2, 4 or 8
 * bytes. */
static void copy_tile(const struct move *move, const unsigned char *source,
                      unsigned char *target, int64_t n_rows, int64_t n_columns)
{
    if (move->source_column == 1 && move->target_column == 1) {
        for (int64_t row = 0; row < n_rows; row++) {
            memcpy(target + row * move->target_row * (int64_t)move->element_bytes,
                   source + row * move->source_row * (int64_t)move->element_bytes,
                   (size_t)n_columns * move->element_bytes);
        }
        return;
    }
    switch (move->element_bytes) {
    case 1:
        tile_uint8_t(move, source, target, n_rows, n_columns);
        break;
    case 2:
        tile_uint16_t(move, source, target, n_rows, n_columns);
        break;
    case 4:
        tile_uint32_t(move, source, target, n_rows, n_columns);
        break;
    case 8:
        tile_uint64_t(move, source, target, n_rows, n_columns);
        break;
    }
}

/* Tile number `tile`: columns fastest, then rows, then the outer dimensions. from and
 * to are offsets of the tile's first element, in elements: the sum of index times
 * stride over all dimensions. */
static void run_tile(const struct move *move, const unsigned char *source,
                     unsigned char *target, int64_t tile)
{
    const int64_t column = tile % move->n_column_tiles * move->tile_columns;
    tile /= move->n_column_tiles;
    const int64_t row = tile % move->n_row_tiles * move->tile_rows;
    tile /= move->n_row_tiles;
    int64_t from = row * move->source_row + column * move->source_column;
    int64_t to = row * move->target_row + column * move->target_column;
    for (int i = move->n_outer - 1; i >= 0; i--) {
        const int64_t index = tile % move->outer[i];
        tile /= move->outer[i];
        from += index * move->source_outer[i];
        to += index * move->target_outer[i];
    }
    copy_tile(move, source + from * (int64_t)move->element_bytes,
              target + to * (int64_t)move->element_bytes,
              base_min(move->tile_rows, move->rows - row),
              base_min(move->tile_columns, move->columns - column));
}

/* Tiles write apart, so tasks may run at the same time. */
void move_run(const struct move *move, const void *source, void *target, int64_t task)
{
    const int64_t first = task * move->tiles_per_task;
    const int64_t end = base_min(first + move->tiles_per_task, count_tiles(move));
    for (int64_t tile = first; tile < end; tile++) {
        run_tile(move, source, target, tile);
    }
}
