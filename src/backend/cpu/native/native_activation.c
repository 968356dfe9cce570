/*
 * native_activation - GELU (tanh form), GEGLU, SiLU and softcap, forward and backward.
 *
 * With u = sqrt(2/pi) (x + c x^3) and s = 1 / (1 + exp(-2u)), (1 + tanh u) / 2 = s, so
 *   gelu(x)  = x s
 *   gelu'(x) = s + 2 x s (1 - s) u',  u' = sqrt(2/pi) (1 + 3 c x^2)
 * which needs one exp and one division and does not cancel for large |x|.
 */
#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"

static const float GELU_SLOPE = 0.79788456F; /* sqrt(2 / pi) */
static const float GELU_CUBIC = 0.044715F;

/* Value and slope at x; each caller uses one or both. */
struct curve {
    vector value, slope;
};

/* The compiler drops the half that a caller does not use. 1 + 3 c x^2 is the derivative
 * of x + c x^3. */
VECTOR_INLINE struct curve gelu_curve(vector x)
{
    const vector square = x * x;
    const vector u = GELU_SLOPE * x * (1.0F + GELU_CUBIC * square);
    const struct logistic s = vector_logistic(u + u);
    const vector u_slope = GELU_SLOPE * (1.0F + 3.0F * GELU_CUBIC * square);
    return (struct curve){
        .value = x * s.value,
        .slope = s.value + 2.0F * x * s.slope * u_slope,
    };
}

/* silu(x) = x s, silu'(x) = s + x s (1 - s) */
VECTOR_INLINE struct curve silu_curve(vector x)
{
    const struct logistic s = vector_logistic(x);
    return (struct curve){.value = x * s.value, .slope = s.value + x * s.slope};
}

/* y = cap t, y' = 1 - t^2, with t = tanh(x / cap) */
VECTOR_INLINE struct curve softcap_curve(vector x, float cap)
{
    const vector t = vector_tanh(x / cap);
    return (struct curve){.value = cap * t, .slope = 1.0F - t * t};
}

/*
 * Loops over whole vectors and the last part. BODY sees the operands' lanes as a, b, c
 * (those that IN names) and sets p and q (those that OUT names): LOAD and STORE are the
 * whole or the partial kind.
 */
#define LOAD_WHOLE(x)     vector_load((x) + i)
#define LOAD_LAST(x)      vector_load_part((x) + i, n - i, 0)
#define STORE_WHOLE(y, v) vector_store((y) + i, v)
#define STORE_LAST(y, v)  vector_store_part((y) + i, n - i, v)
#define FOR_VECTORS(BODY)                                  \
    do {                                                   \
        int64_t i = 0;                                     \
        for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) { \
            BODY(LOAD_WHOLE, STORE_WHOLE)                  \
        }                                                  \
        if (i < n) {                                       \
            BODY(LOAD_LAST, STORE_LAST)                    \
        }                                                  \
    } while (false)

/* y = gelu(x) */
void NATIVE(gelu_tanh)(const float *x, int64_t n, float *y)
{
#define BODY(LOAD, STORE) STORE(y, gelu_curve(LOAD(x)).value);
    FOR_VECTORS(BODY);
#undef BODY
}

/* dx = dy gelu'(x) */
void NATIVE(gelu_tanh_grad)(const float *x, const float *dy, int64_t n, float *dx)
{
#define BODY(LOAD, STORE) STORE(dx, LOAD(dy) * gelu_curve(LOAD(x)).slope);
    FOR_VECTORS(BODY);
#undef BODY
}

/* Gate and up come from two products, so nothing is interleaved. y = gelu(gate) up. */
void NATIVE(geglu)(const float *gate, const float *up, int64_t n, float *y)
{
#define BODY(LOAD, STORE) STORE(y, gelu_curve(LOAD(gate)).value *LOAD(up));
    FOR_VECTORS(BODY);
#undef BODY
}

/* Loads come first: dgate or dup may be the memory of an operand. dgate = dy up
 * gelu'(gate), dup = dy gelu(gate). */
void NATIVE(geglu_grad)(const float *gate, const float *up, const float *dy, int64_t n,
                        float *dgate, float *dup)
{
#define BODY(LOAD, STORE)                             \
    const vector upstream = LOAD(dy);                 \
    const vector factor = LOAD(up);                   \
    const struct curve gelu = gelu_curve(LOAD(gate)); \
    STORE(dgate, upstream *factor *gelu.slope);       \
    STORE(dup, upstream *gelu.value);
    FOR_VECTORS(BODY);
#undef BODY
}

/* y = silu(x) */
void NATIVE(silu)(const float *x, int64_t n, float *y)
{
#define BODY(LOAD, STORE) STORE(y, silu_curve(LOAD(x)).value);
    FOR_VECTORS(BODY);
#undef BODY
}

/* dx = dy silu'(x) */
void NATIVE(silu_grad)(const float *x, const float *dy, int64_t n, float *dx)
{
#define BODY(LOAD, STORE) STORE(dx, LOAD(dy) * silu_curve(LOAD(x)).slope);
    FOR_VECTORS(BODY);
#undef BODY
}

/* y = cap tanh(x / cap) */
void NATIVE(softcap)(const float *x, float cap, int64_t n, float *y)
{
#define BODY(LOAD, STORE) STORE(y, softcap_curve(LOAD(x), cap).value);
    FOR_VECTORS(BODY);
#undef BODY
}

/* dx = dy (1 - tanh(x / cap)^2) */
void NATIVE(softcap_grad)(const float *x, const float *dy, float cap, int64_t n,
                          float *dx)
{
#define BODY(LOAD, STORE) STORE(dx, LOAD(dy) * softcap_curve(LOAD(x), cap).slope);
    FOR_VECTORS(BODY);
#undef BODY
}
