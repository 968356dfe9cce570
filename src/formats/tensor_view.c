/*
 * tensor_view - see tensor_view.h.
 */
#include "formats/tensor_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Not the product of dim: one of them may be 0 while the others are too large to
 * multiply. */
int64_t tensor_view_n_elements(const struct tensor_view *view)
{
    return (int64_t)(view->n_bytes / dtype_bytes(view->dtype));
}

/* Conversion reads whole elements, which must be aligned in memory; the common file is
 * aligned and takes the short way. */
void tensor_view_to_f32(const struct tensor_view *view, int64_t first, int64_t n,
                        float *target)
{
    ASSERT(0 <= first && 0 <= n && first <= tensor_view_n_elements(view) - n);
    const size_t width = dtype_bytes(view->dtype);
    const unsigned char *bytes = view->bytes + (size_t)first * width;
    if ((uintptr_t)bytes % width == 0) {
        dtype_to_f32(view->dtype, bytes, target, (size_t)n);
        return;
    }
    /* A file may put data at any address: go through an aligned buffer. */
    double buffer[512];
    const int64_t most = (int64_t)(sizeof(buffer) / width);
    for (int64_t i = 0; i < n; i += most) {
        const size_t count = (size_t)base_min(most, n - i);
        memcpy(buffer, bytes + (size_t)i * width, count * width);
        dtype_to_f32(view->dtype, buffer, target + i, count);
    }
}

/* A size takes at most 19 digits and two separators, so from 70 there is room for one
 * more and the bracket. */
const char *tensor_view_format_shape(char buffer[100], int rank, const int64_t *dim)
{
    int at = snprintf(buffer, 100, "[");
    for (int i = 0; i < rank && at < 70; i++) {
        at += snprintf(buffer + at, (size_t)(100 - at), "%s%" PRId64, i > 0 ? ", " : "",
                       dim[i]);
    }
    snprintf(buffer + at, (size_t)(100 - at), "]");
    return buffer;
}
