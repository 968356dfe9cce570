/*
 * gemm_plain - one blocked loop nest, compiled for f32 and f64 from gemm_plain.inc.
 *
 * A block of b is copied row-major into a buffer on the stack, so that all four cases
 * of transposes run the same inner loop, which compilers vectorise over columns.
 */
#include "backend/cpu/gemm_plain.h"

enum {
    BLOCK_K = 64,  /* rows of the block of b */
    BLOCK_N = 128, /* columns of the block of b */
    BLOCK_M = 4,   /* rows of a that share one walk over it */
};

#define REAL       float
#define NAME(name) name##_f32
#include "backend/cpu/gemm_plain.inc"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(name) name##_f64
#include "backend/cpu/gemm_plain.inc"
#undef REAL
#undef NAME
