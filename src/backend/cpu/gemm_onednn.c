/*
 * gemm_onednn - dnnl_sgemm behind lathe's signature.
 *
 * The library shares its work out by OpenMP, whose number of threads is a setting of
 * the calling thread: each thread of the pool sets it to one on its first call. The
 * library takes packing memory from the heap in every call and gives it back.
 */
#include "backend/cpu/gemm_onednn.h"

#include <oneapi/dnnl/dnnl.h>

/* From libgomp; its header does not come with every compiler. */
void omp_set_num_threads(int n_threads);

void gemm_onednn_f32(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                     int64_t k, const float *a, int64_t lda, const float *b,
                     int64_t ldb, bool accumulates, float *c, int64_t ldc)
{
    static _Thread_local bool is_single_threaded;
    if (!is_single_threaded) {
        omp_set_num_threads(1);
        is_single_threaded = true;
    }
    const dnnl_status_t status =
        dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a,
                   lda, b, ldb, accumulates ? 1.0f : 0.0f, c, ldc);
    ASSERT(status == dnnl_success); /* it fails for arguments that make no sense */
}
