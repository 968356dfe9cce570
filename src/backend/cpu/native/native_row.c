/*
 * native_row - what softmax, attention and the loss head do to rows.
 *
 * Sums run in two chains of lanes and a last partial vector: an order that depends on
 * the length and the instruction set only.
 */
#include <math.h>

#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"

/* b where a is NaN: a NaN never becomes the largest, but it stays in the sum of exp. */
VECTOR_INLINE vector larger(vector a, vector b)
{
    return vector_select(a > b, a, b);
}

/* Order does not matter here, so all that counts is two chains in flight. */
float NATIVE(row_max)(const float *x, int64_t n)
{
    vector even = vector_all(-INFINITY);
    vector odd = even;
    int64_t i = 0;
    for (; i + 2 * VECTOR_LANES <= n; i += 2 * VECTOR_LANES) {
        even = larger(vector_load(x + i), even);
        odd = larger(vector_load(x + i + VECTOR_LANES), odd);
    }
    for (; i < n; i += VECTOR_LANES) {
        const int64_t rest = n - i;
        even = larger(rest >= VECTOR_LANES ? vector_load(x + i)
                                           : vector_load_part(x + i, rest, -INFINITY),
                      even);
    }
    float lanes[VECTOR_LANES];
    vector_store(lanes, larger(odd, even));
    float largest = lanes[0];
    for (int64_t j = 1; j < VECTOR_LANES; j++) {
        largest = lanes[j] > largest ? lanes[j] : largest;
    }
    return largest;
}

/* Lanes past the end hold exp(-infinity) = 0, but are not counted on for it: shift may
 * be infinite, so the sum takes the stored elements again. */
float NATIVE(row_exp)(float *x, float shift, int64_t n)
{
    vector sum = {0};
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        const vector e = vector_exp(vector_load(x + i) - shift);
        vector_store(x + i, e);
        sum += e;
    }
    if (i < n) {
        const vector e = vector_exp(vector_load_part(x + i, n - i, -INFINITY) - shift);
        vector_store_part(x + i, n - i, e);
        sum += vector_load_part(x + i, n - i, 0);
    }
    return vector_sum(sum);
}

/* Two chains: one exp is a long chain of dependent operations. What the last part holds
 * past the end is dropped by storing and loading again. */
float NATIVE(row_sum_exp)(const float *x, float shift, int64_t n)
{
    vector even = {0};
    vector odd = {0};
    int64_t i = 0;
    for (; i + 2 * VECTOR_LANES <= n; i += 2 * VECTOR_LANES) {
        even += vector_exp(vector_load(x + i) - shift);
        odd += vector_exp(vector_load(x + i + VECTOR_LANES) - shift);
    }
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        even += vector_exp(vector_load(x + i) - shift);
    }
    if (i < n) {
        float last[VECTOR_LANES];
        vector_store(last, vector_exp(vector_load_part(x + i, n - i, 0) - shift));
        odd += vector_load_part(last, n - i, 0);
    }
    return vector_sum(even + odd);
}

/* In place: each vector is read before it is written. */
void NATIVE(row_scale)(float *x, float scale, int64_t n)
{
    NATIVE(row_copy_scaled)(scale, x, n, x);
}

/* y may be x. One rounding per element, the same in every set. */
void NATIVE(row_copy_scaled)(float a, const float *x, int64_t n, float *y)
{
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        vector_store(y + i, vector_load(x + i) * a);
    }
    for (; i < n; i++) {
        y[i] = x[i] * a;
    }
}

/* Every element is rounded once where the set has fused multiply-add. With a = 1 the
 * sum is the same in every set. */
void NATIVE(row_axpy)(float a, const float *x, int64_t n, float *y)
{
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        vector_store(y + i, vector_load(y + i) + vector_load(x + i) * a);
    }
    if (i < n) {
        const vector sum =
            vector_load_part(y + i, n - i, 0) + vector_load_part(x + i, n - i, 0) * a;
        vector_store_part(y + i, n - i, sum);
    }
}

/* In two chains of lanes, as row_dot. */
float NATIVE(row_sum)(const float *x, int64_t n)
{
    vector even = {0};
    vector odd = {0};
    int64_t i = 0;
    for (; i + 2 * VECTOR_LANES <= n; i += 2 * VECTOR_LANES) {
        even += vector_load(x + i);
        odd += vector_load(x + i + VECTOR_LANES);
    }
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        even += vector_load(x + i);
    }
    if (i < n) {
        odd += vector_load_part(x + i, n - i, 0);
    }
    return vector_sum(even + odd);
}

/* Used on rows of a head: 64 to 512 elements. Two chains of lanes hide the latency of
 * multiply-add; the last part goes to the odd one. Also serves RMS norm. */
float NATIVE(row_dot)(const float *x, const float *y, int64_t n)
{
    vector even = {0};
    vector odd = {0};
    int64_t i = 0;
    for (; i + 2 * VECTOR_LANES <= n; i += 2 * VECTOR_LANES) {
        even += vector_load(x + i) * vector_load(y + i);
        odd += vector_load(x + i + VECTOR_LANES) * vector_load(y + i + VECTOR_LANES);
    }
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        even += vector_load(x + i) * vector_load(y + i);
    }
    if (i < n) {
        odd += vector_load_part(x + i, n - i, 0) * vector_load_part(y + i, n - i, 0);
    }
    return vector_sum(even + odd);
}

/* ds may be dp. The gradient of softmax: ds_i = p_i (dp_i - sum_j p_j dp_j), the sum
 * given as delta. */
void NATIVE(softmax_grad_row)(const float *p, const float *dp, float delta, float scale,
                              int64_t n, float *ds)
{
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        const vector centred = vector_load(dp + i) - delta;
        vector_store(ds + i, vector_load(p + i) * centred * scale);
    }
    for (; i < n; i++) {
        ds[i] = p[i] * (dp[i] - delta) * scale;
    }
}

/* inverse_cap 0: the last factor is 1. */
VECTOR_INLINE vector loss_grad(vector z, float lse, float gain, float floor,
                               float weight, float inverse_cap)
{
    const vector capped = z * inverse_cap;
    return weight * (vector_exp(z - lse) * gain - floor) * (1.0F - capped * capped);
}

/* z holds capped logits, so (z / cap)^2 is the square of the tanh. */
void NATIVE(loss_grad_row)(float *z, float lse, float gain, float floor, float weight,
                           float cap, int64_t n)
{
    const float inverse_cap = cap > 0.0F ? 1.0F / cap : 0.0F;
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        vector_store(z + i, loss_grad(vector_load(z + i), lse, gain, floor, weight,
                                      inverse_cap));
    }
    if (i < n) {
        const vector last = vector_load_part(z + i, n - i, 0);
        vector_store_part(z + i, n - i,
                          loss_grad(last, lse, gain, floor, weight, inverse_cap));
    }
}
