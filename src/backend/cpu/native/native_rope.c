/*
 * native_rope - rotary angles and the rotation of one head.
 */
#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"

static const double TWO_OVER_PI = 0.63661977236758134;
/* pi / 2 in two parts; the first has 33 significant bits, so n times it is exact. */
static const double HALF_PI_HIGH = 1.57079632673412561417;
static const double HALF_PI_LOW = 6.07710050650619224932e-11;
static const double MAGIC = 6755399441055744.0; /* 1.5 * 2^52 */

/* Of f64 angles: positions reach 2^18 and a product with a frequency near 1 then has no
 * bits to spare for a reduction in f32. */
struct turn {
    vector_double cosine, sine;
};

/* vector_select for f64. */
VECTOR_INLINE vector_double select_double(vector_long mask, vector_double a,
                                          vector_double b)
{
    return (vector_double)((mask & (vector_long)a) | (~mask & (vector_long)b));
}

/*
 * x = n pi/2 + r, |r| <= pi/4; Taylor series of r, good to 1e-10, far below half a unit
 * of f32; the quadrant n mod 4 swaps sine and cosine and sets their signs.
 */
/* Adding MAGIC rounds to the nearest integer and leaves it in the low bits of
 * `shifted`. Cosine changes sign in quadrants 1 and 2, sine in 2 and 3. */
VECTOR_INLINE struct turn turn_of(vector_double x)
{
    const vector_double shifted = x * TWO_OVER_PI + MAGIC;
    const vector_double n = shifted - MAGIC;
    const vector_double r = (x - n * HALF_PI_HIGH) - n * HALF_PI_LOW;
    const vector_double s = r * r;

    vector_double sine = s * (1.0 / 362880.0) - 1.0 / 5040.0;
    sine = sine * s + 1.0 / 120.0;
    sine = sine * s - 1.0 / 6.0;
    sine = sine * s * r + r;
    vector_double cosine = s * (-1.0 / 3628800.0) + 1.0 / 40320.0;
    cosine = cosine * s - 1.0 / 720.0;
    cosine = cosine * s + 1.0 / 24.0;
    cosine = cosine * s - 0.5;
    cosine = cosine * s + 1.0;

    const vector_long quadrant = (vector_long)shifted & 3;
    const vector_long is_odd = (quadrant & 1) != 0;
    const vector_long cosine_sign = ((quadrant + 1) & 2) << 62;
    const vector_long sine_sign = (quadrant & 2) << 62;
    const vector_double c = select_double(is_odd, sine, cosine);
    const vector_double t = select_double(is_odd, cosine, sine);
    return (struct turn){
        .cosine = (vector_double)((vector_long)c ^ cosine_sign),
        .sine = (vector_double)((vector_long)t ^ sine_sign),
    };
}

/* The product is rounded to f32 first, as the reference does; cosine and sine of that
 * rounded angle are then exact to the last bit but one. Parts of a vector past the end
 * compute angle 0 and are not stored. */
void NATIVE(rope_angles)(float position, const float *frequencies, int64_t n,
                         float *cosines, float *sines)
{
    for (int64_t i = 0; i < n; i += VECTOR_LANES_DOUBLE) {
        const int64_t count = base_min(VECTOR_LANES_DOUBLE, n - i);
        float angle[VECTOR_LANES_DOUBLE] = {0};
        for (int64_t j = 0; j < count; j++) {
            angle[j] = position * frequencies[i + j];
        }
        const vector_double x =
            __builtin_convertvector(vector_load_half(angle), vector_double);
        const struct turn turn = turn_of(x);
        const vector_half cosine = __builtin_convertvector(turn.cosine, vector_half);
        const vector_half sine = __builtin_convertvector(turn.sine, vector_half);
        memcpy(cosines + i, &cosine, (size_t)count * sizeof(float));
        memcpy(sines + i, &sine, (size_t)count * sizeof(float));
    }
}

/* y may be x. Each pair is read before it is written. Dimensions pairs .. half and half
 * + pairs .. 2 half do not turn. */
void NATIVE(rope_row)(const float *x, const float *cosines, const float *sines,
                      int64_t half, int64_t pairs, float sign, float *y)
{
    int64_t d = 0;
    for (; d + VECTOR_LANES <= pairs; d += VECTOR_LANES) {
        const vector a = vector_load(x + d);
        const vector b = vector_load(x + d + half);
        const vector cosine = vector_load(cosines + d);
        const vector sine = vector_load(sines + d) * sign;
        vector_store(y + d, a * cosine - b * sine);
        vector_store(y + d + half, b * cosine + a * sine);
    }
    for (; d < pairs; d++) {
        const float a = x[d];
        const float b = x[d + half];
        y[d] = a * cosines[d] - b * sines[d] * sign;
        y[d + half] = b * cosines[d] + a * sines[d] * sign;
    }
    if (y != x && pairs < half) {
        const size_t rest_bytes = (size_t)(half - pairs) * sizeof(float);
        memcpy(y + pairs, x + pairs, rest_bytes);
        memcpy(y + half + pairs, x + half + pairs, rest_bytes);
    }
}
