/*
 * gemm_plain - matrix products in plain C, f32 and f64. As in gemm.h.
 *
 * Every element is a sum over k in ascending order, so results do not depend on how a
 * caller cuts m and n into tiles.
 */
#ifndef BACKEND_CPU_GEMM_PLAIN_H
#define BACKEND_CPU_GEMM_PLAIN_H

#include "base/base.h"

void gemm_plain_f32(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                    const float *a, int64_t lda, const float *b, int64_t ldb,
                    bool accumulates, float *c, int64_t ldc);

void gemm_plain_f64(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                    const double *a, int64_t lda, const double *b, int64_t ldb,
                    bool accumulates, double *c, int64_t ldc);

#endif
