/*
 * dtype - the table of element types, and conversions between floating-point ones.
 *
 * Rounding is to nearest, ties to even, done on the bits: the same on every machine.
 */
#include "base/dtype.h"

#include <assert.h>
#include <string.h>

/* The one place where an element type is described. */
static const struct dtype_row {
    const char *name; /* as in messages and printed graphs */
    size_t bytes;     /* of one element */
    bool is_float;
} dtype_rows[] = {
    [DTYPE_F64] = {"f64", 8, true},    [DTYPE_F32] = {"f32", 4, true},
    [DTYPE_BF16] = {"bf16", 2, true},  [DTYPE_F16] = {"f16", 2, true},
    [DTYPE_I64] = {"i64", 8, false},   [DTYPE_I32] = {"i32", 4, false},
    [DTYPE_U32] = {"u32", 4, false},   [DTYPE_U8] = {"u8", 1, false},
    [DTYPE_BOOL] = {"bool", 1, false},
};

static_assert(ARRAY_LENGTH(dtype_rows) == DTYPE_COUNT, "one row per dtype");

/* A number that is no dtype is a mistake of the program: files name types by text. */
static const struct dtype_row *row_of(enum dtype dtype)
{
    ASSERT((unsigned)dtype < DTYPE_COUNT);
    return &dtype_rows[dtype];
}

size_t dtype_bytes(enum dtype dtype)
{
    return row_of(dtype)->bytes;
}

const char *dtype_name(enum dtype dtype)
{
    return row_of(dtype)->name;
}

/* Nine short names: a search will do. */
bool dtype_from_name(const char *name, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_rows[i].name) == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_is_float(enum dtype dtype)
{
    return row_of(dtype)->is_float;
}

/* The bits of a float as a word and back, which memcpy may do and a cast may not. */
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/*
 *     rounded = (bits + 0x7FFF + lowest kept bit) / 2^16
 *
 * A carry out of the mantissa raises the exponent, which is right: the largest floats
 * round to infinity. NaN is kept apart, or the addition could carry it into infinity.
 */
uint16_t dtype_bf16_from_f32(float x)
{
    const uint32_t bits = bits_of(x);
    /* Half of the last kept place, less one if that place is even: ties go to even. */
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40;
    return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded);
}

float dtype_f32_from_bf16(uint16_t x)
{
    return float_of((uint32_t)x << 16);
}

/*
 * f16: 5 bits of exponent (bias 15), 10 of mantissa. Normal results round like bf16, on
 * the bits. Small ones (under 2^-14) are shifted into place by an f32 addition, which
 * rounds to nearest even: 0.5 has its last place at 2^-24, f16's smallest step.
 */
uint16_t dtype_f16_from_f32(float x)
{
    const uint32_t bits = bits_of(x);
    const uint32_t sign = (bits >> 16) & 0x8000;
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
        return (uint16_t)(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
    }
    if (magnitude >= 0x477FF000) { /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7C00);
    }
    if (magnitude < 0x38800000) { /* under 2^-14 */
        const float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
    }
    const uint32_t rebased = magnitude - ((uint32_t)(127 - 15) << 23);
    return (uint16_t)(sign | ((rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13));
}

/* Every f16 is an f32: the fields only move, and the bias changes from 15 to 127. */
float dtype_f32_from_f16(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16;
    const uint32_t exponent = (x >> 10) & 0x1F;
    const uint32_t mantissa = x & 0x3FF;
    if (exponent == 0x1F) { /* infinity, NaN */
        return float_of(sign | 0x7F800000 | (mantissa << 13));
    }
    if (exponent == 0) { /* a multiple of 2^-24, exact in f32 */
        const float magnitude = (float)mantissa * 0x1p-24f;
        return float_of(sign | bits_of(magnitude));
    }
    return float_of(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

/* One loop per dtype, so that the test is outside and the compiler may vectorise. f32
 * to f32 may be in place, hence memmove. */
void dtype_to_f32(enum dtype from, const void *source, float *target, size_t n)
{
    ASSERT(dtype_is_float(from));
    if (from == DTYPE_F32) {
        memmove(target, source, n * sizeof(*target));
    } else if (from == DTYPE_BF16) {
        const uint16_t *values = source;
        for (size_t i = 0; i < n; i++) {
            target[i] = dtype_f32_from_bf16(values[i]);
        }
    } else if (from == DTYPE_F16) {
        const uint16_t *values = source;
        for (size_t i = 0; i < n; i++) {
            target[i] = dtype_f32_from_f16(values[i]);
        }
    } else {
        const double *values = source;
        for (size_t i = 0; i < n; i++) {
            target[i] = (float)values[i];
        }
    }
}

/* As above, the other way; rounding to nearest even in the narrow ones. */
void dtype_from_f32(enum dtype to, const float *source, void *target, size_t n)
{
    ASSERT(dtype_is_float(to));
    if (to == DTYPE_F32) {
        memmove(target, source, n * sizeof(*source));
    } else if (to == DTYPE_BF16) {
        uint16_t *values = target;
        for (size_t i = 0; i < n; i++) {
            values[i] = dtype_bf16_from_f32(source[i]);
        }
    } else if (to == DTYPE_F16) {
        uint16_t *values = target;
        for (size_t i = 0; i < n; i++) {
            values[i] = dtype_f16_from_f32(source[i]);
        }
    } else {
        double *values = target;
        for (size_t i = 0; i < n; i++) {
            values[i] = (double)source[i];
        }
    }
}
