/*
 * native_optimizer - sum of squares in f64, and AdamW.
 */
#include <math.h>

#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"
#include "graph/build.h"

/* f32 squares are exact in f64, so only the sum rounds. The lanes are added in
 * order. */
double NATIVE(sum_squares)(const float *x, int64_t n)
{
    vector_double even = {0};
    vector_double odd = {0};
    int64_t i = 0;
    for (; i + 2 * VECTOR_LANES_DOUBLE <= n; i += 2 * VECTOR_LANES_DOUBLE) {
        const vector_double a =
            __builtin_convertvector(vector_load_half(x + i), vector_double);
        const vector_double b = __builtin_convertvector(
            vector_load_half(x + i + VECTOR_LANES_DOUBLE), vector_double);
        even += a * a;
        odd += b * b;
    }
    double lanes[VECTOR_LANES_DOUBLE];
    even += odd;
    memcpy(lanes, &even, sizeof lanes);
    double sum = 0;
    for (int64_t j = 0; j < VECTOR_LANES_DOUBLE; j++) {
        sum += lanes[j];
    }
    for (; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

/* What the loop needs of the hyper vector. */
struct step {
    float keep;         /* 1 - lr * decay */
    float beta1, beta2; /* and what is left of 1: */
    float rest1, rest2;
    float size;            /* lr / bias correction 1 */
    float root_correction; /* sqrt(bias correction 2) */
    float eps;
};

/* Once per call, in f32 as the hyper vector is. p = p (1 - lr decay) - size m /
 * (sqrt(v) / root_correction + eps). */
static struct step step_of(const float *hyper)
{
    return (struct step){
        .keep = 1.0F - hyper[ADAMW_LR] * hyper[ADAMW_DECAY],
        .beta1 = hyper[ADAMW_BETA1],
        .beta2 = hyper[ADAMW_BETA2],
        .rest1 = 1.0F - hyper[ADAMW_BETA1],
        .rest2 = 1.0F - hyper[ADAMW_BETA2],
        .size = hyper[ADAMW_LR] / hyper[ADAMW_BIAS_CORRECTION1],
        .root_correction = sqrtf(hyper[ADAMW_BIAS_CORRECTION2]),
        .eps = hyper[ADAMW_EPS],
    };
}

/* Plain C: the compiler turns square root and division into vector instructions. m =
 * beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, as torch.optim.AdamW defines
 * it. The arrays are apart, as restrict says. */
void NATIVE(adamw)(float *restrict p, const float *restrict g, float *restrict m,
                   float *restrict v, const float *hyper, float scale, int64_t n)
{
    const struct step step = step_of(hyper);
    for (int64_t i = 0; i < n; i++) {
        const float gradient = g[i] * scale;
        m[i] = step.beta1 * m[i] + step.rest1 * gradient;
        v[i] = step.beta2 * v[i] + step.rest2 * gradient * gradient;
        const float root = sqrtf(v[i]) / step.root_correction;
        p[i] = p[i] * step.keep - step.size * m[i] / (root + step.eps);
    }
}
