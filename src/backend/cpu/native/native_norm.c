/*
 * native_norm - rows of RMS norm, forward and backward.
 *
 * y = x r g with r = (mean(x^2) + eps)^(-1/2);
 * dx = r (g dy) - x r^3 / n sum(g dy x);  dweight += dy x r.
 */
#include <math.h>

#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"

/* r: one pass over the row. The row is read again right after, from cache. r =
 * (sum(x^2) / n + eps)^(-1/2); a true division, not the approximate reciprocal root
 * that the sets have. */
static float inverse_rms(const float *x, float eps, int64_t n)
{
    return 1.0F / sqrtf(NATIVE(row_dot)(x, x, n) / (float)n + eps);
}

/* Lanes i .. of what the row is multiplied by. Lanes past the end hold the shift alone;
 * nobody stores them. */
VECTOR_INLINE vector gain(const float *weight, float shift, int64_t i, int64_t n)
{
    if (weight == NULL) {
        return vector_all(1.0F);
    }
    if (i + VECTOR_LANES <= n) {
        return vector_load(weight + i) + shift;
    }
    return vector_load_part(weight + i, n - i, 0) + shift;
}

/* The order of the factors is that of the definition: x r first, then the gain. */
float NATIVE(rms_norm_row)(const float *x, const float *weight, bool adds_one,
                           float eps, int64_t n, float *y)
{
    const float r = inverse_rms(x, eps, n);
    const float shift = adds_one ? 1.0F : 0.0F;
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        vector_store(y + i, vector_load(x + i) * r * gain(weight, shift, i, n));
    }
    if (i < n) {
        const vector last = vector_load_part(x + i, n - i, 0) * r;
        vector_store_part(y + i, n - i, last * gain(weight, shift, i, n));
    }
    return r;
}

/* Sum of g dy x. Lanes past the end add 0, as dy and x are 0 there. */
static float gained_dot(const float *x, const float *weight, float shift,
                        const float *dy, int64_t n)
{
    vector sum = {0};
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        sum += gain(weight, shift, i, n) * vector_load(dy + i) * vector_load(x + i);
    }
    if (i < n) {
        sum += gain(weight, shift, i, n) * vector_load_part(dy + i, n - i, 0) *
               vector_load_part(x + i, n - i, 0);
    }
    return vector_sum(sum);
}

/* dweight is the caller's sum over rows; rows come in order, one at a time. */
static void add_weight_grad(const float *x, const float *dy, float r, int64_t n,
                            float *dweight)
{
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        const vector term = vector_load(dy + i) * vector_load(x + i) * r;
        vector_store(dweight + i, vector_load(dweight + i) + term);
    }
    for (; i < n; i++) {
        dweight[i] += dy[i] * x[i] * r;
    }
}

/* Three passes: r, the sum along x, then dx. A row of a few thousand elements stays in
 * the first cache, so passes cost less than keeping r from the forward run would in
 * memory. dx may be the memory of dy or x: each vector is read before it is written. */
void NATIVE(rms_norm_grad_row)(const float *x, const float *weight, bool adds_one,
                               float eps, int64_t n, const float *dy, float *dx,
                               float *dweight)
{
    const float shift = adds_one ? 1.0F : 0.0F;
    const float r = inverse_rms(x, eps, n);
    const float along_x = r * r * r / (float)n * gained_dot(x, weight, shift, dy, n);
    if (dweight != NULL) {
        add_weight_grad(x, dy, r, n, dweight);
    }
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        const vector across = gain(weight, shift, i, n) * vector_load(dy + i) * r;
        vector_store(dx + i, across - vector_load(x + i) * along_x);
    }
    if (i < n) {
        const vector across =
            gain(weight, shift, i, n) * vector_load_part(dy + i, n - i, 0) * r;
        const vector last = across - vector_load_part(x + i, n - i, 0) * along_x;
        vector_store_part(dx + i, n - i, last);
    }
}
