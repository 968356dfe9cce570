/*
 * selftest - native kernels against the plain ones, on this machine, in about a second.
 *
 * Each composite with a native kernel (and matrix products) runs on small arrays of odd
 * sizes, forward and gradient: once by its definition in primitives with the plain
 * kernels, once for each instruction set that the processor has, and products once for
 * each library. `lathe doctor` shows the results: a processor, a library or a compiler
 * that computes something else is found before a training is lost.
 *
 *     if (!selftest_run(1.0, note, &state, err)) ... it could not be run
 */
#ifndef BACKEND_SELFTEST_H
#define BACKEND_SELFTEST_H

#include "base/base.h"

struct error;

struct selftest_result {
    const char *kernel; /* "attention" */
    const char *engine; /* "avx2, openblas" */
    double error;       /* largest difference, of the largest magnitude of an output */
    double bound;       /* what rounding explains */
    bool is_fine;       /* finite and within the bound */
};

typedef void (*selftest_report_fn)(void *context, const struct selftest_result *result);

/* Calls report for each kernel and engine. bound_scale: 1.0 (tests tighten it). False
 * only where something could not run at all; a difference is a result. */
MUST_USE bool selftest_run(double bound_scale, selftest_report_fn report, void *context,
                           struct error *err);

#endif
