/*
 * k_wide - operands and results of kernels that are written for f32 and take bf16 too.
 *
 * A row of bf16 is widened into room that the kernel has for it, and a result is computed
 * there and rounded once; f32 is read and written where it lies. So one loop serves both.
 */
#ifndef BACKEND_CPU_K_WIDE_H
#define BACKEND_CPU_K_WIDE_H

#include "backend/cpu/kernel.h"

/* For `supports`: every float among operands and results is f32 or bf16. */
bool wide_takes(const struct node *node);

/* True if one of them is bf16: then rows need room. */
bool wide_has_bf16(const struct node *node);

/* `n_rows` rows of n floats if there is bf16, else 0: for thread_bytes. */
size_t wide_room_bytes(const struct node *node, int64_t n_rows, int64_t n);

/* An array of f32 or bf16, and the loops for this processor. */
struct wide {
    const struct native *native;
    enum dtype dtype;
    unsigned char *data;
};

/* Operand and result `index` of a node, of one rank. */
struct wide wide_input(const struct kernel_call *call, int local_rank, int index);
struct wide wide_output(const struct kernel_call *call, int local_rank, int index);

/* Elements at .. at + n as f32: themselves, or widened in `room`. */
const float *wide_read(const struct wide *wide, int64_t at, int64_t n, float *room);

/* Where to compute elements at .. of a result: there, or in `room`. wide_store then
 * rounds n of them out of it (f32 is there already). */
float *wide_target(const struct wide *wide, int64_t at, float *room);
void wide_store(const struct wide *wide, int64_t at, int64_t n, const float *room);

/* n elements from one type to another, where either is bf16 or f32. */
void wide_convert(const struct native *native, enum dtype from, const void *x,
                  enum dtype to, void *y, int64_t n);

/* ---- whole arrays, for kernels that come back to their operands ---- */

/* Operand or result `index` of a node. A list of them is what a kernel copies. */
struct wide_array {
    bool is_result;
    int index;
};

/* Scratch for f32 copies of those that are bf16; 0 if none is. */
size_t wide_copies_bytes(const struct node *node, const struct wide_array *arrays,
                         int n);

/* Tasks that widen all operands of the list into their copies, or with is_result round
 * all results out of them. */
int64_t wide_copies_tasks(const struct node *node, const struct wide_array *arrays,
                          int n, bool is_result);
void wide_copies_run(const struct kernel_call *call, int local_rank,
                     const struct wide_array *arrays, int n, bool is_result,
                     void *scratch, int64_t task);

/* Array `which` of the list in f32: its copy, or itself. */
float *wide_copies_get(const struct kernel_call *call, int local_rank,
                       const struct wide_array *arrays, int which, void *scratch);

#endif
