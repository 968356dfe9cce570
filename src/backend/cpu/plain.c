/*
 * plain - the loops of plain.inc for each element type, and all casts between them.
 */
#include "backend/cpu/plain.h"

#include <math.h>
#include <string.h>

#define ELEMENT    double
#define WIDE       double
#define NAME(name) name##_f64
#define IS_FLOAT   1
#define MATH(name) name
#include "backend/cpu/plain.inc"

#define ELEMENT    float
#define WIDE       float
#define NAME(name) name##_f32
#define IS_FLOAT   1
#define MATH(name) name##f
#include "backend/cpu/plain.inc"

#define ELEMENT    int64_t
#define WIDE       uint64_t
#define NAME(name) name##_i64
#define IS_FLOAT   0
#include "backend/cpu/plain.inc"

#define ELEMENT    int32_t
#define WIDE       uint32_t
#define NAME(name) name##_i32
#define IS_FLOAT   0
#include "backend/cpu/plain.inc"

#define ELEMENT    uint32_t
#define WIDE       uint32_t
#define NAME(name) name##_u32
#define IS_FLOAT   0
#include "backend/cpu/plain.inc"

#define ELEMENT    uint8_t
#define WIDE       uint32_t
#define NAME(name) name##_u8
#define IS_FLOAT   0
#include "backend/cpu/plain.inc"

/* bool is u8 that happens to be 0 or 1. */
const struct plain_loops *plain_loops_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64:
        return &loops_f64;
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_F16:
        return &loops_f32;
    case DTYPE_I64:
        return &loops_i64;
    case DTYPE_I32:
        return &loops_i32;
    case DTYPE_U32:
        return &loops_u32;
    case DTYPE_U8:
    case DTYPE_BOOL:
        return &loops_u8;
    case DTYPE_COUNT:
        break;
    }
    UNREACHABLE();
}

/* C has no arithmetic for them; f32 holds all their values exactly. */
bool plain_is_widened(enum dtype dtype)
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

/* x as an integer between low and high (powers of two or 0, so exact as double). */
static double clamp(double x, double low, double high)
{
    return isnan(x) ? 0.0 : x < low ? low : x > high ? high : x;
}

/*
 * Conversions that C leaves undefined out of range are clamped first. 2^63 is a double
 * but no int64_t, hence the case of its own.
 */
static int64_t i64_of_float(double x)
{
    return x >= 0x1p63 ? INT64_MAX : (int64_t)clamp(x, -0x1p63, 0x1p63);
}

/* The bounds of 32-bit types are exact as double, so clamping is enough. */
static int32_t i32_of_float(double x)
{
    return (int32_t)clamp(x, INT32_MIN, INT32_MAX);
}

static uint32_t u32_of_float(double x)
{
    return (uint32_t)clamp(x, 0, UINT32_MAX);
}

static uint8_t u8_of_float(double x)
{
    return (uint8_t)clamp(x, 0, UINT8_MAX);
}

/* ---- casts ---- */

#define CAST(name, FROM, TO, expression)                   \
    static void name(const void *from, void *y, int64_t n) \
    {                                                      \
        const FROM *operand = from;                        \
        TO *result = y;                                    \
        for (int64_t i = 0; i < n; i++) {                  \
            const FROM x = operand[i];                     \
            result[i] = expression;                        \
        }                                                  \
    }

/* From one type to all seven; TO_INTEGER(type, x) converts to an integer type. */
#define CASTS(suffix, FROM, TO_INTEGER)                                 \
    CAST(suffix##_to_f64, FROM, double, (double)x)                      \
    CAST(suffix##_to_f32, FROM, float, (float)x)                        \
    CAST(suffix##_to_i64, FROM, int64_t, TO_INTEGER(i64, int64_t, x))   \
    CAST(suffix##_to_i32, FROM, int32_t, TO_INTEGER(i32, int32_t, x))   \
    CAST(suffix##_to_u32, FROM, uint32_t, TO_INTEGER(u32, uint32_t, x)) \
    CAST(suffix##_to_u8, FROM, uint8_t, TO_INTEGER(u8, uint8_t, x))     \
    CAST(suffix##_to_bool, FROM, uint8_t, x != 0)

#define FROM_FLOAT(suffix, type, x)   suffix##_of_float((double)(x))
#define FROM_INTEGER(suffix, type, x) (type)(x)

CASTS(f64, double, FROM_FLOAT)
CASTS(f32, float, FROM_FLOAT)
CASTS(i64, int64_t, FROM_INTEGER)
CASTS(i32, int32_t, FROM_INTEGER)
CASTS(u32, uint32_t, FROM_INTEGER)
CASTS(u8, uint8_t, FROM_INTEGER)

#define CAST_ROW(suffix)                                              \
    {                                                                 \
        [DTYPE_F64] = suffix##_to_f64, [DTYPE_F32] = suffix##_to_f32, \
        [DTYPE_I64] = suffix##_to_i64, [DTYPE_I32] = suffix##_to_i32, \
        [DTYPE_U32] = suffix##_to_u32, [DTYPE_U8] = suffix##_to_u8,   \
        [DTYPE_BOOL] = suffix##_to_bool,                              \
    }

/* Pairs with bf16 or f16 are NULL and never looked up: plain_cast goes by way of f32
 * there. */
static const plain_unary_fn casts[DTYPE_COUNT][DTYPE_COUNT] = {
    [DTYPE_F64] = CAST_ROW(f64), [DTYPE_F32] = CAST_ROW(f32),
    [DTYPE_I64] = CAST_ROW(i64), [DTYPE_I32] = CAST_ROW(i32),
    [DTYPE_U32] = CAST_ROW(u32), [DTYPE_U8] = CAST_ROW(u8),
    [DTYPE_BOOL] = CAST_ROW(u8),
};

enum { WIDEN_BLOCK = 512 }; /* elements, 2 KiB on the stack */

/* bf16 and f16 go by way of f32, in blocks on the stack. That rounds twice only from
 * f64 and from integers beyond 2^24. */
void plain_cast(enum dtype from, const void *x, enum dtype to, void *y, int64_t n)
{
    if (from == to) {
        memmove(y, x, (size_t)n * dtype_bytes(from));
        return;
    }
    if (!plain_is_widened(from) && !plain_is_widened(to)) {
        casts[from][to](x, y, n);
        return;
    }
    const unsigned char *source = x;
    unsigned char *target = y;
    float block[WIDEN_BLOCK];
    for (int64_t i = 0; i < n; i += WIDEN_BLOCK) {
        const int64_t count = base_min(WIDEN_BLOCK, n - i);
        const void *part = source + (size_t)i * dtype_bytes(from);
        void *result = target + (size_t)i * dtype_bytes(to);
        if (plain_is_widened(from)) {
            dtype_to_f32(from, part, block, (size_t)count);
        } else {
            plain_cast(from, part, DTYPE_F32, block, count);
        }
        if (plain_is_widened(to)) {
            dtype_from_f32(to, block, result, (size_t)count);
        } else {
            plain_cast(DTYPE_F32, block, to, result, count);
        }
    }
}
