/*
 * tensor_view - one tensor inside a mapped file: what it is and where its bytes are.
 */
#ifndef FORMATS_TENSOR_VIEW_H
#define FORMATS_TENSOR_VIEW_H

#include "base/base.h"
#include "base/dtype.h"

enum { TENSOR_VIEW_MAX_RANK = 8 };

/* Everything is borrowed from the file that was opened and ends with it. */
struct tensor_view {
    const char *name;
    enum dtype dtype;
    int rank;                          /* 0 = one element */
    int64_t dim[TENSOR_VIEW_MAX_RANK]; /* row-major, outermost first */
    const unsigned char *bytes;        /* little-endian; any alignment */
    size_t n_bytes;                    /* = product of dim * bytes per element */
};

int64_t tensor_view_n_elements(const struct tensor_view *view);

/* Elements first .. first + n - 1 of a floating-point tensor, as f32. */
void tensor_view_to_f32(const struct tensor_view *view, int64_t first, int64_t n,
                        float *target);

/* "[2, 3]", cut to fit; returns `buffer`. */
const char *tensor_view_format_shape(char buffer[100], int rank, const int64_t *dim);

#endif
