/*
 * native_bf16 - bf16 to f32 and back, at the speed of memory; and rounding by chance.
 *
 * The bits of the first two are those of dtype_bf16_from_f32 and dtype_f32_from_bf16: to nearest, ties to
 * even, NaN stays NaN.
 */
#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"

/* As many bf16 as a vector of f32 has lanes. */
typedef uint16_t vector_bf16 __attribute__((vector_size(VECTOR_BYTES / 2)));

typedef uint32_t vector_word __attribute__((vector_size(VECTOR_BYTES)));

/* The bits move up by 16. */
VECTOR_INLINE vector widened(vector_bf16 x)
{
    return (vector)(__builtin_convertvector(x, vector_int) << 16);
}

/* (bits + 0x7FFF + lowest kept bit) / 2^16, and a quiet NaN for NaN, which the addition
 * could carry into infinity. Shifts copy the sign into bits that are cut off. */
VECTOR_INLINE vector_bf16 rounded(vector x)
{
    const vector_int bits = (vector_int)x;
    const vector_int kept = bits >> 16;
    const vector_int is_nan = x != x; /* these would overflow below */
    const vector_int near = ((bits & ~is_nan) + 0x7FFF + (kept & 1)) >> 16;
    const vector_int result = (is_nan & (kept | 0x40)) | (~is_nan & near);
    return __builtin_convertvector(result & 0xFFFF, vector_bf16);
}

/* x and y do not overlap. The last part goes through the stack: nothing behind n is
 * touched. */
void NATIVE(widen_bf16)(const uint16_t *x, int64_t n, float *y)
{
    vector_bf16 part = {0};
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        memcpy(&part, x + i, sizeof part);
        vector_store(y + i, widened(part));
    }
    if (i < n) {
        memcpy(&part, x + i, (size_t)(n - i) * sizeof *x);
        const vector last = widened(part);
        memcpy(y + i, &last, (size_t)(n - i) * sizeof *y);
    }
}

/* As above, the other way. */
void NATIVE(round_bf16)(const float *x, int64_t n, uint16_t *y)
{
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        const vector_bf16 part = rounded(vector_load(x + i));
        memcpy(y + i, &part, sizeof part);
    }
    if (i < n) {
        const vector_bf16 last = rounded(vector_load_part(x + i, n - i, 0));
        memcpy(y + i, &last, (size_t)(n - i) * sizeof *y);
    }
}

/* bits + chance, cut off: a carry into the kept ones comes as often as x is near to the
 * next number. An exponent of all ones (infinity, NaN) is rounded to nearest. */
VECTOR_INLINE vector_bf16 rounded_by(vector x, vector_int chance)
{
    const vector_int bits = (vector_int)x;
    const vector_int is_finite = (bits & 0x7F800000) != 0x7F800000;
    const vector_int chosen = (bits + (chance & is_finite)) >> 16;
    const vector_bf16 by_chance = __builtin_convertvector(chosen & 0xFFFF, vector_bf16);
    const vector_bf16 mask = __builtin_convertvector(is_finite & 0xFFFF, vector_bf16);
    return (by_chance & mask) | (rounded(x) & ~mask);
}

/* The 16 bits of each word that count, as numbers below 2^16. */
VECTOR_INLINE vector_int chance_of(const uint32_t *words, uint32_t factor, int shift)
{
    vector_word part;
    memcpy(&part, words, sizeof part);
    return (vector_int)(part * factor >> shift & 0xFFFF);
}

/* Parts of a vector at the end are copied, so that nothing behind n is touched. */
void NATIVE(round_bf16_by_chance)(const float *x, const uint32_t *words,
                                  uint32_t factor, int shift, int64_t n, uint16_t *y)
{
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES) {
        const vector_bf16 part =
            rounded_by(vector_load(x + i), chance_of(words + i, factor, shift));
        memcpy(y + i, &part, sizeof part);
    }
    if (i < n) {
        uint32_t last_words[VECTOR_LANES] = {0};
        memcpy(last_words, words + i, (size_t)(n - i) * sizeof *words);
        const vector_bf16 last = rounded_by(vector_load_part(x + i, n - i, 0),
                                            chance_of(last_words, factor, shift));
        memcpy(y + i, &last, (size_t)(n - i) * sizeof *y);
    }
}
