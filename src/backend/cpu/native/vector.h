/*
 * vector - vectors of f32 as wide as the instruction set, and exp, tanh, sine and
 * cosine of them. For the files in this folder only, which are compiled once per set.
 *
 * GCC's vector extensions (clang has them too), so that one text serves 16, 32 and 64
 * bytes. Nothing here assumes finite values: NaN in, NaN out.
 */
#ifndef BACKEND_CPU_NATIVE_VECTOR_H
#define BACKEND_CPU_NATIVE_VECTOR_H

#include <string.h>

#include "base/base.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* The only way to write a vector type in C is a typedef. */
typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vector_int __attribute__((vector_size(VECTOR_BYTES)));
typedef double vector_double __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t vector_long __attribute__((vector_size(VECTOR_BYTES)));
typedef float vector_half __attribute__((vector_size(VECTOR_BYTES / 2)));

#define VECTOR_INLINE static inline __attribute__((always_inline))

enum {
    VECTOR_LANES = VECTOR_BYTES / 4,
    VECTOR_LANES_DOUBLE = VECTOR_BYTES / 8,
};

/* x in every lane. */
VECTOR_INLINE vector vector_all(float x)
{
    return (vector){0} + x;
}

/* At any address. */
VECTOR_INLINE vector vector_load(const float *x)
{
    vector v;
    memcpy(&v, x, sizeof v);
    return v;
}

VECTOR_INLINE void vector_store(float *x, vector v)
{
    memcpy(x, &v, sizeof v);
}

/* The first n < VECTOR_LANES elements; the other lanes are `rest`. Nothing behind them
 * is read: it may be another task's, or no memory at all. */
VECTOR_INLINE vector vector_load_part(const float *x, int64_t n, float rest)
{
    float lanes[VECTOR_LANES];
    for (int64_t i = 0; i < VECTOR_LANES; i++) {
        lanes[i] = i < n ? x[i] : rest;
    }
    return vector_load(lanes);
}

/* The first n lanes; nothing behind them is written. */
VECTOR_INLINE void vector_store_part(float *x, int64_t n, vector v)
{
    float lanes[VECTOR_LANES];
    vector_store(lanes, v);
    for (int64_t i = 0; i < n; i++) {
        x[i] = lanes[i];
    }
}

/* As many f32 as a vector of f64 has lanes, for conversion. */
VECTOR_INLINE vector_half vector_load_half(const float *x)
{
    vector_half v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* mask ? a : b, lane by lane; a mask is all ones or all zeros, as comparisons give
 * it. */
VECTOR_INLINE vector vector_select(vector_int mask, vector a, vector b)
{
    return (vector)((mask & (vector_int)a) | (~mask & (vector_int)b));
}

/* Comparisons with NaN are false, so these keep `a` where it is NaN. */
VECTOR_INLINE vector vector_at_most(vector a, float limit)
{
    const vector bound = vector_all(limit);
    return vector_select(a > bound, bound, a);
}

VECTOR_INLINE vector vector_at_least(vector a, float limit)
{
    const vector bound = vector_all(limit);
    return vector_select(a < bound, bound, a);
}

/* Lanes are added in halves: the order depends on the number of lanes only. */
VECTOR_INLINE float vector_sum(vector v)
{
    float lanes[VECTOR_LANES];
    vector_store(lanes, v);
    for (int64_t width = VECTOR_LANES / 2; width > 0; width /= 2) {
        for (int64_t i = 0; i < width; i++) {
            lanes[i] += lanes[i + width];
        }
    }
    return lanes[0];
}

/* 2^n for n in [-252, 254], as the product of two factors that are both normal, so that
 * results below the smallest normal number come out right. */
VECTOR_INLINE vector vector_times_power_of_two(vector x, vector_int n)
{
    const vector_int first = n >> 1;
    const vector_int second = n - first;
    return x * (vector)((first + 127) << 23) * (vector)((second + 127) << 23);
}

/*
 * exp(x), error below 1.5 units in the last place. x = n log 2 + r with |r| <= log(2) /
 * 2; log 2 in two parts, the first short enough that n times it is exact; polynomial as
 * in Cephes' expf. Beyond the range of f32: 0 and infinity.
 */
VECTOR_INLINE vector vector_exp(vector x)
{
    const float magic = 12582912.0F; /* 1.5 * 2^23: adding it rounds to an integer */
    x = vector_at_least(vector_at_most(x, 89.0F), -104.0F);
    const vector shifted = x * 1.44269504F + magic;
    const vector n = shifted - magic;
    const vector r = (x - n * 0.693359375F) + n * 2.12194440e-4F;

    vector p = r * 1.9875691500e-4F + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    return vector_times_power_of_two(p, (vector_int)shifted - 0x4B400000);
}

/*
 * tanh(x), error below 2 units in the last place: an odd polynomial (Cephes' tanhf) for
 * |x| < 0.625, else 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
 */
VECTOR_INLINE vector vector_tanh(vector x)
{
    const vector_int sign = (vector_int)x & INT32_MIN;
    const vector size = (vector)((vector_int)x & INT32_MAX);

    const vector square = x * x;
    vector p = square * -5.70498872745e-3F + 2.06390887954e-2F;
    p = p * square - 5.37397155531e-2F;
    p = p * square + 1.33314422036e-1F;
    p = p * square - 3.33332819422e-1F;
    p = p * square * x + x;

    const vector large = 1.0F - 2.0F / (vector_exp(size + size) + 1.0F);
    const vector signed_large = (vector)((vector_int)large | sign);
    return vector_select(size < vector_all(0.625F), p, signed_large);
}

struct logistic {
    vector value; /* s = 1 / (1 + exp(-x)) */
    vector slope; /* s (1 - s) */
};

/* From e = exp(-|x|), which cannot overflow; neither value nor slope cancels. */
VECTOR_INLINE struct logistic vector_logistic(vector x)
{
    const vector e = vector_exp((vector)((vector_int)x | INT32_MIN));
    const vector s = 1.0F / (1.0F + e);
    return (struct logistic){
        .value = vector_select(x < vector_all(0.0F), e * s, s),
        .slope = e * s * s,
    };
}

#endif
