/*
 * move - copies a box of elements between two strided arrays, cut into tasks.
 *
 * Transpose, broadcast, slice, pad, concat and collectives are all this one copy with
 * other strides. The cut depends on the box only.
 *
 *     struct move move = move_make(size, rank, dim, source_strides, target_strides);
 *     for (int64_t task = 0; task < move_n_tasks(&move); task++) {
 *         move_run(&move, source, target, task);
 *     }
 */
#ifndef BACKEND_CPU_MOVE_H
#define BACKEND_CPU_MOVE_H

#include "graph/type.h"

/* Filled by move_make, in which dimensions of length 1 are dropped and neighbours that
 * lie in one run on both sides are merged. */
struct move {
    size_t element_bytes;
    int n_outer;                          /* dimensions but the inner ones below */
    int64_t outer[SHAPE_MAX_RANK];        /* lengths */
    int64_t source_outer[SHAPE_MAX_RANK]; /* strides, in elements */
    int64_t target_outer[SHAPE_MAX_RANK];
    int64_t rows, source_row, target_row; /* walked in tiles with the columns */
    int64_t columns, source_column, target_column; /* the innermost of the target */
    int64_t tile_rows, tile_columns;
    int64_t n_outer_boxes, n_row_tiles, n_column_tiles;
    int64_t tiles_per_task;
};

/* Lengths and strides (in elements; 0 repeats an element of the source) per dimension
 * of the box, in the target's order. */
struct move move_make(size_t element_bytes, int rank, const int64_t *dim,
                      const int64_t *source_strides, const int64_t *target_strides);

int64_t move_n_tasks(const struct move *move);

/* source, target: address of the box's first element. They do not overlap. */
void move_run(const struct move *move, const void *source, void *target, int64_t task);

/* Row-major strides of `shape`, in elements. */
void move_strides(const struct shape *shape, int64_t strides[SHAPE_MAX_RANK]);

#endif
