/*
 * gemm_onednn - matrix products by oneDNN, one thread per call. As in gemm.h.
 */
#ifndef BACKEND_CPU_GEMM_ONEDNN_H
#define BACKEND_CPU_GEMM_ONEDNN_H

#include "base/base.h"

void gemm_onednn_f32(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                     int64_t k, const float *a, int64_t lda, const float *b,
                     int64_t ldb, bool accumulates, float *c, int64_t ldc);

#endif
