/*
 * native - vectorised inner loops, compiled once per instruction set.
 *
 * The files in backend/cpu/native/ are compiled with -DISA=plain, avx2 and avx512 and
 * the flags of that set; each compilation fills one table of functions (native_plain,
 * native_avx2, native_avx512). The kernels of composites (k_*.c) cut the work into
 * tasks and call these on rows. All are f32; sums run in a fixed order for a given set.
 * Kernels widen bf16 operands into scratch and round results from there.
 */
#ifndef BACKEND_CPU_NATIVE_H
#define BACKEND_CPU_NATIVE_H

#include "backend/backend.h"

struct native {
    const char *name; /* "avx2" */
    enum backend_isa isa;

    /* y[i] = x[i] * r * g, r = (mean(x^2) + eps)^(-1/2); g = weight, 1 + weight, or 1
     * (weight NULL). Returns r. */
    float (*rms_norm_row)(const float *x, const float *weight, bool adds_one, float eps,
                          int64_t n, float *y);

    /* dx[i] from dy; dweight[i] += dy[i] * x[i] * r (dweight NULL: not wanted). */
    void (*rms_norm_grad_row)(const float *x, const float *weight, bool adds_one,
                              float eps, int64_t n, const float *dy, float *dx,
                              float *dweight);

    void (*gelu_tanh)(const float *x, int64_t n, float *y);
    void (*gelu_tanh_grad)(const float *x, const float *dy, int64_t n, float *dx);
    void (*geglu)(const float *gate, const float *up, int64_t n, float *y);
    void (*geglu_grad)(const float *gate, const float *up, const float *dy, int64_t n,
                       float *dgate, float *dup);
    void (*silu)(const float *x, int64_t n, float *y);
    void (*silu_grad)(const float *x, const float *dy, int64_t n, float *dx);
    void (*softcap)(const float *x, float cap, int64_t n, float *y);
    void (*softcap_grad)(const float *x, const float *dy, float cap, int64_t n,
                         float *dx);

    /* cosines[d] and sines[d] of the f32 angle position * frequencies[d]; angles up to
     * 2^24 are reduced in f64. */
    void (*rope_angles)(float position, const float *frequencies, int64_t n,
                        float *cosines, float *sines);

    /* Turns pairs (x[d], x[d + half]) by the angles whose cosines and sines are given,
     * for d < pairs; copies the rest. sign -1 turns back. */
    void (*rope_row)(const float *x, const float *cosines, const float *sines,
                     int64_t half, int64_t pairs, float sign, float *y);

    /* Largest of x[0 .. n). */
    float (*row_max)(const float *x, int64_t n);
    /* x[i] = exp(x[i] - shift); returns the sum. */
    float (*row_exp)(float *x, float shift, int64_t n);
    /* Sum of exp(x[i] - shift); x stays. */
    float (*row_sum_exp)(const float *x, float shift, int64_t n);
    float (*row_sum)(const float *x, int64_t n);
    /* x[i] *= scale */
    void (*row_scale)(float *x, float scale, int64_t n);
    /* y[i] += a * x[i] */
    void (*row_axpy)(float a, const float *x, int64_t n, float *y);
    /* y[i] = a * x[i] */
    void (*row_copy_scaled)(float a, const float *x, int64_t n, float *y);
    float (*row_dot)(const float *x, const float *y, int64_t n);
    /* y[r][j] = x[r] . w[j] over k, for r < m and j < n; strides from row to row, in
     * elements. Every weight is read once; the bits of a product do not depend on m. */
    void (*dots_f32)(const float *x, int64_t x_stride, int64_t m, const float *w,
                     int64_t w_stride, int64_t n, int64_t k, float *y,
                     int64_t y_stride);
    void (*dots_bf16)(const float *x, int64_t x_stride, int64_t m, const uint16_t *w,
                      int64_t w_stride, int64_t n, int64_t k, float *y,
                      int64_t y_stride);
    /* ds[i] = p[i] * (dp[i] - delta) * scale */
    void (*softmax_grad_row)(const float *p, const float *dp, float delta, float scale,
                             int64_t n, float *ds);

    /* Logits of one token into their gradient, in place, but for the target's own part:
     * z[i] = weight * (exp(z[i] - lse) * gain - floor) * (1 - (z[i] / cap)^2), without
     * the last factor when cap is 0. */
    void (*loss_grad_row)(float *z, float lse, float gain, float floor, float weight,
                          float cap, int64_t n);

    /* bf16 (as uint16_t, like dtype.h) to f32, exact; x and y are apart. */
    void (*widen_bf16)(const uint16_t *x, int64_t n, float *y);
    /* f32 to bf16, to nearest even; x and y are apart. */
    void (*round_bf16)(const float *x, int64_t n, uint16_t *y);
    /* The same up or down: by the 16 bits above `shift` of words[i] * factor, as
     * build_adamw_stochastic says. Infinity and NaN stay. */
    void (*round_bf16_by_chance)(const float *x, const uint32_t *words, uint32_t factor,
                                 int shift, int64_t n, uint16_t *y);
    /* Words first .. first + n of random_bits(seed, purpose, step). */
    void (*random_words)(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t first,
                         int64_t n, uint32_t *words);

    double (*sum_squares)(const float *x, int64_t n);

    /* p, m, v updated in place; hyper as in build_adamw. */
    void (*adamw)(float *p, const float *g, float *m, float *v, const float *hyper,
                  float scale, int64_t n);
};

/* The best set that this processor has, at most `highest`. */
const struct native *native_find(enum backend_isa highest);

/* All sets that this processor has; returns how many (at most 3). For tests. */
int native_list(const struct native *sets[3]);

#endif
