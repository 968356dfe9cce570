/*
 * random - Philox 4x32-10 and what is drawn from it.
 *
 * Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). One
 * block gives four words; word i of a stream is word i mod 4 of block i / 4.
 */
#include "base/random.h"

#include <math.h>
#include <string.h>

/*
 * (c0, c1, c2, c3) <- (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0))
 * and each key word grows by its constant after every round. hi and lo are the halves
 * of the 64-bit product.
 */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0];
    uint32_t c1 = counter[1];
    uint32_t c2 = counter[2];
    uint32_t c3 = counter[3];
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9u; /* the golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Purpose and the upper part of step share the last word; the bounds keep them apart,
 * so no two streams overlap. */
void random_block(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t block,
                  uint32_t out[4])
{
    ASSERT(purpose < 1u << 16);
    ASSERT(step < (uint64_t)1 << 48);
    const uint32_t counter[4] = {
        (uint32_t)block,
        (uint32_t)(block >> 32),
        (uint32_t)step,
        (uint32_t)(step >> 32) << 16 | purpose,
    };
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    random_philox(counter, key, out);
}

/* LANES blocks from `block` on, as random_block gives them one by one. The same
 * operations on neighbouring numbers, which compilers turn into vector instructions. */
enum { LANES = 8 };
static void make_lanes(const uint32_t counter[4], const uint32_t key[2], uint64_t block,
                       uint32_t out[4 * LANES])
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    for (int i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)(block + (uint64_t)i);
        c1[i] = (uint32_t)((block + (uint64_t)i) >> 32);
        c2[i] = counter[2];
        c3[i] = counter[3];
    }
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LANES; i++) {
            const uint64_t product0 = (uint64_t)0xD2511F53u * c0[i];
            const uint64_t product1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(product1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)product1;
            c2[i] = (uint32_t)(product0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)product0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < LANES; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

/* Whole groups of lanes are made; of the first and the last some words may be left. */
void random_fill(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t first,
                 int64_t n, uint32_t *out)
{
    ASSERT(purpose < 1u << 16);
    ASSERT(step < (uint64_t)1 << 48);
    const uint32_t counter[4] = {0, 0, (uint32_t)step,
                                 (uint32_t)(step >> 32) << 16 | purpose};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    int64_t skip = (int64_t)(first % 4);
    uint64_t block = first / 4;
    for (int64_t done = 0; done < n; block += LANES) {
        uint32_t words[4 * LANES];
        make_lanes(counter, key, block, words);
        const int64_t take = base_min(4 * LANES - skip, n - done);
        memcpy(out + done, words + skip, (size_t)take * sizeof(*out));
        done += take;
        skip = 0;
    }
}

/* Three of the four words are thrown away: for whole arrays use random_fill. */
uint32_t random_bits(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t index)
{
    uint32_t words[4];
    random_block(seed, purpose, step, index / 4, words);
    return words[index % 4];
}

/* 24 bits fill the mantissa: every result is exact, and 1.0 is never reached. */
float random_uniform(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t index)
{
    return (float)(random_bits(seed, purpose, step, index) >> 8) * 0x1p-24f;
}

/*
 * Words 2 i and 2 i + 1 of the stream, which lie in one block:
 *
 *     sqrt(-2 ln u) cos(2 pi w),  u = (first + 1) / 2^32,  w = second / 2^32
 *
 * u is never 0, so the logarithm is finite. The sine of the pair is not used, so that
 * no number needs the one beside it.
 */
float random_normal(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t index)
{
    static const double two_pi = 6.283185307179586476925286766559;
    uint32_t words[4];
    random_block(seed, purpose, step, index / 2, words);
    const uint32_t *pair = words + 2 * (index % 2);
    const double radius_part = ((double)pair[0] + 1.0) * 0x1p-32; /* (0, 1] */
    const double angle = two_pi * ((double)pair[1] * 0x1p-32);
    return (float)(sqrt(-2.0 * log(radius_part)) * cos(angle));
}

/* Fisher and Yates. A word times n, upper half, is uniform to 1 part in 2^32 / n. */
void random_permutation(uint64_t seed, uint32_t purpose, uint64_t step, int64_t n,
                        int32_t *order)
{
    ASSERT(0 <= n && n <= INT32_MAX);
    for (int64_t i = 0; i < n; i++) {
        order[i] = (int32_t)i;
    }
    for (int64_t i = n - 1; i > 0; i--) {
        const uint64_t word = random_bits(seed, purpose, step, (uint64_t)i);
        const int64_t other = (int64_t)(word * (uint64_t)(i + 1) >> 32);
        const int32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}
