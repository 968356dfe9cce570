/*
 * kernel_harness - runs one kernel without graph, plan or engine.
 *
 *     struct harness *h = harness_create(&kernel_silu);
 *     float *x = harness_input(h, DTYPE_F32, 2, (int64_t[]){3, 5});
 *     float *y = harness_output(h, DTYPE_F32, 2, (int64_t[]){3, 5});
 *     harness_fill(x, 15, 1, 2.0);
 *     harness_run(h, native);
 *     harness_destroy(h);
 *
 * Operands are exactly as long as their type says, so that the address sanitizer sees what
 * lies outside. Scratch and results start as NaN. harness_run runs the phases with tasks in
 * order, then all again in an order drawn at random, and fails the test unless every result
 * has the same bits: tasks are independent and nothing is read before it is written.
 */
#ifndef SUPPORT_KERNEL_HARNESS_H
#define SUPPORT_KERNEL_HARNESS_H

#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

struct harness;

struct harness *harness_create(const struct kernel *kernel);
void harness_destroy(struct harness *harness);

/* The node's attributes, to be set before the run. */
struct attributes *harness_attributes(struct harness *harness);
void harness_set_loss_head_bytes(struct harness *harness, size_t bytes);

/* Adds an operand or a result and returns its memory. */
void *harness_input(struct harness *harness, enum dtype dtype, int rank,
                    const int64_t *dim);
void *harness_output(struct harness *harness, enum dtype dtype, int rank,
                     const int64_t *dim);

/* A result in the memory of operand `input`. */
void *harness_alias(struct harness *harness, int input);

/* Only once in order, without the second run: for big cases. */
void harness_run_once(struct harness *harness, const struct native *native);
void harness_run(struct harness *harness, const struct native *native);

/* Normal numbers times `scale`, a function of the stream. */
void harness_fill(float *x, int64_t n, uint64_t stream, double scale);

/* A copy as doubles, freed by mem_free. */
double *harness_doubles(const float *x, int64_t n);

/* Largest |x - reference| over the largest |reference|; infinite when x is not finite. */
double harness_error(const float *x, const double *reference, int64_t n);

/* Fails, with the figures, unless harness_error is below the bound. */
void harness_check(const char *what, const struct native *native, const float *x,
                   const double *reference, int64_t n, double bound);

#endif
