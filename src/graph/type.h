/*
 * type - dtype, shape and placement of a value.
 */
#ifndef GRAPH_TYPE_H
#define GRAPH_TYPE_H

#include "base/dtype.h"
#include "mesh/placement.h"

enum { SHAPE_MAX_RANK = 6 };

/* Row-major; the last dimension is contiguous. Rank 0 is a scalar. In a graph, shapes
 * are local: what one rank holds. */
struct shape {
    int rank;                    /* 0 .. SHAPE_MAX_RANK */
    int64_t dim[SHAPE_MAX_RANK]; /* unused ones are 0 */
};

/* All that is known of a value before it exists. */
struct type {
    enum dtype dtype;
    struct shape shape; /* local: the block's */
    struct placement placement;
};

/* type_make(DTYPE_F32, 2, (int64_t[]){B, T}): the same on every rank. */
struct shape type_shape(int rank, const int64_t *dim);
struct type type_make(enum dtype dtype, int rank, const int64_t *dim);
struct type type_scalar(enum dtype dtype);

/* Of the local block. Sizes that do not fit abort: they were checked before. */
int64_t type_elements(const struct type *type);
size_t type_bytes(const struct type *type);
int64_t type_shape_elements(const struct shape *shape);
bool type_shape_equal(const struct shape *a, const struct shape *b);
bool type_equal(const struct type *a, const struct type *b);

/* One slice of a stacked type: without the leading `depth` dimensions, which are never
 * split. And [n, ...], a stack of n such slices. Splits move along. */
struct type type_slice(const struct type *stacked, int depth);
struct type type_stack(const struct type *slice, int64_t n);

/* "f32[4,512,640]{shard: split 0}". Returns `buffer`. */
const char *type_format(char buffer[192], const struct type *type);

#endif
