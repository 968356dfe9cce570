/*
 * gemm - single-threaded matrix products behind one call: OpenBLAS, oneDNN, or plain C.
 *
 * Threads of lathe's pool call it at once, each on its own tile. Row-major:
 * c[M,N] = a op b + (accumulates ? c : 0), with leading dimensions in elements.
 */
#ifndef BACKEND_CPU_GEMM_H
#define BACKEND_CPU_GEMM_H

#include "base/base.h"

struct error;

typedef void (*gemm_f32_fn)(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                            int64_t k, const float *a, int64_t lda, const float *b,
                            int64_t ldb, bool accumulates, float *c, int64_t ldc);

typedef void (*gemm_f64_fn)(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                            int64_t k, const double *a, int64_t lda, const double *b,
                            int64_t ldb, bool accumulates, double *c, int64_t ldc);

struct gemm {
    const char *name; /* "openblas" */
    gemm_f32_fn f32;
    gemm_f64_fn f64; /* the plain one, everywhere */
};

/* The provider by name, or for NULL the one that the fixed table gives this processor.
 * Prepares the library (one thread per call). NULL with the names that exist. */
MUST_USE const struct gemm *gemm_find(const char *name, struct error *err);

/* Names of the providers of this build, the plain one last; NULL behind it. */
const char *gemm_name(int index);

#endif
