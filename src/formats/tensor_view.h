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

#endif
