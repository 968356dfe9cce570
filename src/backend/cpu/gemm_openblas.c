/*
 * gemm_openblas - cblas_sgemm behind lathe's signature.
 *
 * Calls from several threads at once are safe in Debian's 0.3.21 (pthread build): each
 * call takes its own packing buffer, kept by the library for the next.
 */
#include "backend/cpu/gemm_openblas.h"

#include <cblas.h>
#include <limits.h>

void gemm_openblas_prepare(void)
{
    openblas_set_num_threads(1);
}

void gemm_openblas_f32(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                       int64_t k, const float *a, int64_t lda, const float *b,
                       int64_t ldb, bool accumulates, float *c, int64_t ldc)
{
    ASSERT(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX);
    ASSERT(lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX);
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
                (blasint)k, 1.0f, a, (blasint)lda, b, (blasint)ldb,
                accumulates ? 1.0f : 0.0f, c, (blasint)ldc);
}
