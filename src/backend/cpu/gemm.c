/*
 * gemm - which library multiplies, by a fixed table: never by a timing, so that a
 * machine always computes with the same one.
 *
 * Measured on 2 cores, f32: with AVX2 only (Zen 3) OpenBLAS 172 GFLOP/s, oneDNN 150 to
 * 160; with AVX-512 (Zen 5) oneDNN about 400, more than OpenBLAS. Builds for the thread
 * sanitizer (LATHE_PLAIN_GEMM) have the plain one only: it cannot see into libraries.
 */
#include "backend/cpu/gemm.h"

#include <string.h>

#include "backend/cpu/gemm_plain.h"
#include "base/error.h"

#ifndef LATHE_PLAIN_GEMM
#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/gemm_openblas.h"

static const struct gemm openblas = {"openblas", gemm_openblas_f32, gemm_plain_f64};
static const struct gemm onednn = {"onednn", gemm_onednn_f32, gemm_plain_f64};
#endif

static const struct gemm plain = {"plain", gemm_plain_f32, gemm_plain_f64};

/* oneDNN where there is AVX-512, as measured above. Support is asked of the processor,
 * not of the build. */
static const struct gemm *find_best(void)
{
#if defined(LATHE_PLAIN_GEMM)
    return &plain;
#elif defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") ? &onednn : &openblas;
#else
    return &openblas;
#endif
}

/* A run that was recorded can thus be repeated with the provider it had. */
static const struct gemm *find_named(const char *name)
{
#ifndef LATHE_PLAIN_GEMM
    if (strcmp(name, openblas.name) == 0) {
        return &openblas;
    }
    if (strcmp(name, onednn.name) == 0) {
        return &onednn;
    }
#endif
    return strcmp(name, plain.name) == 0 ? &plain : NULL;
}

/* OpenBLAS has one setting for the process and is told once; oneDNN is told on each
 * thread (gemm_onednn.c). */
const struct gemm *gemm_find(const char *name, struct error *err)
{
    const struct gemm *found = name == NULL ? find_best() : find_named(name);
    if (found == NULL) {
#ifdef LATHE_PLAIN_GEMM
        const char *names = "plain (this build has no other)";
#else
        const char *names = "openblas, onednn, plain";
#endif
        error_set(err, ERROR_USAGE,
                  "matrix products by '%s' are not known; there are: %s", name, names);
        return NULL;
    }
#ifndef LATHE_PLAIN_GEMM
    if (found == &openblas) {
        gemm_openblas_prepare();
    }
#endif
    return found;
}

const char *gemm_name(int index)
{
    static const struct gemm *const providers[] = {
#ifndef LATHE_PLAIN_GEMM
        &openblas, &onednn,
#endif
        &plain};
    return index < (int)ARRAY_LENGTH(providers) ? providers[index]->name : NULL;
}
