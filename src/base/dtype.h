/*
 * dtype - element types of tensors, in files and in the graph.
 */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include "base/base.h"

enum dtype {
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_U32,
    DTYPE_U8,
    DTYPE_BOOL, /* one byte, 0 or 1 */
    DTYPE_COUNT
};

/* Facts of one dtype; dtype_from_name is false for names that are none. */
size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* "f32" */
bool dtype_from_name(const char *name, enum dtype *dtype);
bool dtype_is_float(enum dtype dtype);

/* bf16 is the upper half of f32; to it, to nearest, ties to even; NaN stays NaN. */
uint16_t dtype_bf16_from_f32(float x);
float dtype_f32_from_bf16(uint16_t x);
/* f16 (IEEE half): overflow gives infinity, small numbers become its subnormal ones. */
uint16_t dtype_f16_from_f32(float x);
float dtype_f32_from_f16(uint16_t x);

/* Converts n floating-point elements (F64, F32, BF16, F16) to f32 and back. */
void dtype_to_f32(enum dtype from, const void *source, float *target, size_t n);
void dtype_from_f32(enum dtype to, const float *source, void *target, size_t n);

#endif
