/*
 * native_dots - a few rows times a weight matrix: every weight is read once and widened
 * in registers, which is as fast as memory gives it.
 *
 * Up to ROWS rows of x meet WEIGHTS rows of the weight at a time; larger m walks over
 * its rows while those weights are in the nearest cache. Each product is one chain of
 * lanes over k, so its bits do not depend on m or on the place in the matrix.
 */
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"

enum {
    ROWS = 4,
    WEIGHTS = VECTOR_LANES >= 16 ? 4 : 2, /* with ROWS: sums that fit the registers */
    WEIGHTS_OF_ONE = 4,                   /* for a single row */
    LINE_BYTES = 64,                      /* of a cache */
};

#if !defined(__AVX2__)
typedef uint16_t vector_bf16 __attribute__((vector_size(VECTOR_BYTES / 2)));
#endif

/* Both kinds of weights; is_bf16 is a constant in every use. */
struct weights {
    const unsigned char *data; /* of the first row */
    int64_t row_bytes;
    bool is_bf16;
};

/* VECTOR_LANES weights at any address; the bits move up by 16. Compilers make four
 * instructions of the general form. */
VECTOR_INLINE vector widen(const unsigned char *weights)
{
#if defined(__AVX512F__)
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)weights);
    return (vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16);
#elif defined(__AVX2__)
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)weights);
    return (vector)_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16);
#else
    vector_bf16 x;
    memcpy(&x, weights, sizeof x);
    return (vector)(__builtin_convertvector(x, vector_int) << 16);
#endif
}

/* Lanes i .. of row j. */
VECTOR_INLINE vector weight_at(const struct weights *w, int64_t j, int64_t i)
{
    const unsigned char *row = w->data + j * w->row_bytes;
    return w->is_bf16 ? widen(row + 2 * i)
                      : vector_load((const float *)(const void *)row + i);
}

/* The first n lanes from i on, the others zero. */
VECTOR_INLINE vector weight_part(const struct weights *w, int64_t j, int64_t i,
                                 int64_t n)
{
    const unsigned char *row = w->data + j * w->row_bytes;
    if (!w->is_bf16) {
        return vector_load_part((const float *)(const void *)row + i, n, 0);
    }
    unsigned char x[VECTOR_BYTES / 2] = {0};
    memcpy(x, row + 2 * i, (size_t)n * 2);
    return widen(x);
}

/* y[r][j] = x[r] . w[j] for r < m and j < n, both constants: the loops over them must be
 * unrolled for the sums to stay in registers. */
VECTOR_INLINE void block(const float *x, int64_t x_stride, int m,
                         const struct weights *w, int n, int64_t k, float *y,
                         int64_t y_stride)
{
    vector sums[ROWS][WEIGHTS_OF_ONE] = {0};
    vector weight[WEIGHTS_OF_ONE] = {0};
    int64_t i = 0;
    const int64_t bytes = n * VECTOR_LANES * (w->is_bf16 ? 2 : 4); /* of one turn */
    const unsigned char *ahead = w->data + n * w->row_bytes;
    for (; i + VECTOR_LANES <= k; i += VECTOR_LANES, ahead += bytes) {
#pragma GCC unroll 4
        for (int64_t at = 0; at < bytes; at += LINE_BYTES) {
            __builtin_prefetch(ahead + at);
        }
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            weight[j] = weight_at(w, j, i);
        }
#pragma GCC unroll 4
        for (int r = 0; r < m; r++) {
            const vector row = vector_load(x + r * x_stride + i);
#pragma GCC unroll 4
            for (int j = 0; j < n; j++) {
                sums[r][j] += row * weight[j];
            }
        }
    }
    if (i < k) {
#pragma GCC unroll 4
        for (int r = 0; r < m; r++) {
            const vector row = vector_load_part(x + r * x_stride + i, k - i, 0);
#pragma GCC unroll 4
            for (int j = 0; j < n; j++) {
                sums[r][j] += row * weight_part(w, j, i, k - i);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < m; r++) {
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            y[r * y_stride + j] = vector_sum(sums[r][j]);
        }
    }
}

/* All m rows of x with n rows of the weight; n is a constant. */
VECTOR_INLINE void all_rows(const float *x, int64_t x_stride, int64_t m,
                            const struct weights *w, int n, int64_t k, float *y,
                            int64_t y_stride)
{
    int64_t r = 0;
    for (; r + ROWS <= m; r += ROWS) {
        block(x + r * x_stride, x_stride, ROWS, w, n, k, y + r * y_stride, y_stride);
    }
    x += r * x_stride;
    y += r * y_stride;
    if (m - r == 3) {
        block(x, x_stride, 3, w, n, k, y, y_stride);
    } else if (m - r == 2) {
        block(x, x_stride, 2, w, n, k, y, y_stride);
    } else if (m - r == 1) {
        block(x, x_stride, 1, w, n, k, y, y_stride);
    }
}

/* Rows of the weight in steps; the last few one by one. */
VECTOR_INLINE void dots(const float *x, int64_t x_stride, int64_t m, struct weights w,
                        int64_t n, int64_t k, float *y, int64_t y_stride)
{
    int64_t j = 0;
    if (m == 1) {
        for (; j + WEIGHTS_OF_ONE <= n; j += WEIGHTS_OF_ONE) {
            block(x, x_stride, 1, &w, WEIGHTS_OF_ONE, k, y + j, y_stride);
            w.data += WEIGHTS_OF_ONE * w.row_bytes;
        }
    }
    for (; j + WEIGHTS <= n; j += WEIGHTS) {
        all_rows(x, x_stride, m, &w, WEIGHTS, k, y + j, y_stride);
        w.data += WEIGHTS * w.row_bytes;
    }
    for (; j < n; j++) {
        all_rows(x, x_stride, m, &w, 1, k, y + j, y_stride);
        w.data += w.row_bytes;
    }
}

void NATIVE(dots_f32)(const float *x, int64_t x_stride, int64_t m, const float *w,
                      int64_t w_stride, int64_t n, int64_t k, float *y,
                      int64_t y_stride)
{
    const struct weights weights = {(const unsigned char *)w, 4 * w_stride, false};
    dots(x, x_stride, m, weights, n, k, y, y_stride);
}

void NATIVE(dots_bf16)(const float *x, int64_t x_stride, int64_t m, const uint16_t *w,
                       int64_t w_stride, int64_t n, int64_t k, float *y,
                       int64_t y_stride)
{
    const struct weights weights = {(const unsigned char *)w, 2 * w_stride, true};
    dots(x, x_stride, m, weights, n, k, y, y_stride);
}
