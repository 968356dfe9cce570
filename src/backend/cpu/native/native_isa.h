/*
 * native_isa - names of the functions that fill one struct native: NATIVE(row_max) is
 * native_row_max_avx2 when ISA is avx2. Contracts: native.h.
 */
#ifndef BACKEND_CPU_NATIVE_NATIVE_ISA_H
#define BACKEND_CPU_NATIVE_NATIVE_ISA_H

#include "backend/cpu/native.h"

/* Two steps, as ISA must be expanded before it is pasted. */
#define NATIVE_JOIN(name, isa)   native_##name##_##isa
#define NATIVE_EXPAND(name, isa) NATIVE_JOIN(name, isa)
#define NATIVE(name)             NATIVE_EXPAND(name, ISA)

/* native_norm.c: x, y, dy and dx are rows [n], weight and dweight [n]. */
float NATIVE(rms_norm_row)(const float *x, const float *weight, bool adds_one,
                           float eps, int64_t n, float *y);
void NATIVE(rms_norm_grad_row)(const float *x, const float *weight, bool adds_one,
                               float eps, int64_t n, const float *dy, float *dx,
                               float *dweight);

/* native_activation.c: flat arrays [n]. */
void NATIVE(gelu_tanh)(const float *x, int64_t n, float *y);
void NATIVE(gelu_tanh_grad)(const float *x, const float *dy, int64_t n, float *dx);
void NATIVE(geglu)(const float *gate, const float *up, int64_t n, float *y);
void NATIVE(geglu_grad)(const float *gate, const float *up, const float *dy, int64_t n,
                        float *dgate, float *dup);
void NATIVE(silu)(const float *x, int64_t n, float *y);
void NATIVE(silu_grad)(const float *x, const float *dy, int64_t n, float *dx);
void NATIVE(softcap)(const float *x, float cap, int64_t n, float *y);
void NATIVE(softcap_grad)(const float *x, const float *dy, float cap, int64_t n,
                          float *dx);

/* native_rope.c: x and y are one head [2 * half], cosines and sines [pairs]. */
void NATIVE(rope_angles)(float position, const float *frequencies, int64_t n,
                         float *cosines, float *sines);
void NATIVE(rope_row)(const float *x, const float *cosines, const float *sines,
                      int64_t half, int64_t pairs, float sign, float *y);

/* native_row.c: rows [n]. */
float NATIVE(row_max)(const float *x, int64_t n);
float NATIVE(row_exp)(float *x, float shift, int64_t n);
float NATIVE(row_sum_exp)(const float *x, float shift, int64_t n);
void NATIVE(row_scale)(float *x, float scale, int64_t n);
void NATIVE(row_axpy)(float a, const float *x, int64_t n, float *y);
void NATIVE(row_copy_scaled)(float a, const float *x, int64_t n, float *y);
float NATIVE(row_sum)(const float *x, int64_t n);
float NATIVE(row_dot)(const float *x, const float *y, int64_t n);

void NATIVE(softmax_grad_row)(const float *p, const float *dp, float delta, float scale,
                              int64_t n, float *ds);
void NATIVE(loss_grad_row)(float *z, float lse, float gain, float floor, float weight,
                           float cap, int64_t n);

/* native_bf16.c: flat arrays [n]. */
void NATIVE(widen_bf16)(const uint16_t *x, int64_t n, float *y);
void NATIVE(round_bf16)(const float *x, int64_t n, uint16_t *y);
void NATIVE(round_bf16_by_chance)(const float *x, const uint32_t *words,
                                  uint32_t factor, int shift, int64_t n, uint16_t *y);

/* native_random.c */
void NATIVE(random_words)(uint64_t seed, uint32_t purpose, uint64_t step,
                          uint64_t first, int64_t n, uint32_t *words);

/* native_dots.c: x [m, k], w [n, k], y [m, n]. */
void NATIVE(dots_f32)(const float *x, int64_t x_stride, int64_t m, const float *w,
                      int64_t w_stride, int64_t n, int64_t k, float *y,
                      int64_t y_stride);
void NATIVE(dots_bf16)(const float *x, int64_t x_stride, int64_t m, const uint16_t *w,
                       int64_t w_stride, int64_t n, int64_t k, float *y,
                       int64_t y_stride);

/* native_optimizer.c: flat arrays [n]. */
double NATIVE(sum_squares)(const float *x, int64_t n);
void NATIVE(adamw)(float *p, const float *g, float *m, float *v, const float *hyper,
                   float scale, int64_t n);

#endif
