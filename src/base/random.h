/*
 * random - numbers that depend only on where they are used.
 *
 * Philox 4x32-10 (Salmon et al., 2011) keyed by the seed and counted by (purpose, step,
 * index): the same at every layout, thread count and under recomputation.
 *
 * Key = (seed low, seed high); counter = (block low, block high, step low,
 * step high * 2^16 + purpose) in 32-bit words, where block = index / 4 and index mod 4
 * picks the word. So step < 2^48 and purpose < 2^16.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/base.h"

/* What the numbers are for, so that two uses never share a stream. Values are part of
 * the run's reproducibility: never renumber. */
enum random_purpose {
    RANDOM_INIT = 1,    /* initial parameters */
    RANDOM_SHUFFLE = 2, /* order of examples */
    RANDOM_DROPOUT = 3,
    RANDOM_ROUNDING = 4, /* stochastic rounding */
    RANDOM_SAMPLE = 5,   /* generation */
    RANDOM_TEST = 6,
    RANDOM_MIXTURE = 7,  /* which part of a file an epoch takes */
    RANDOM_HOLD_OUT = 8, /* which rows are held out */
};

/* The bare generator: four words from a counter and a key. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Words 4 block .. 4 block + 3 of the stream at once. */
void random_block(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t block,
                  uint32_t out[4]);

/* Words first .. first + n - 1 of the stream: for whole arrays. */
void random_fill(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t first,
                 int64_t n, uint32_t *out);

/* The index-th 32-bit number of the stream. */
uint32_t random_bits(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t index);

/* Uniform in [0, 1), 24 bits. */
float random_uniform(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t index);

/* Normal with mean 0 and deviation 1 (Box-Muller). */
float random_normal(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t index);

/* A permutation of 0 .. n-1 into order[]; a function of seed, purpose and step.
 * n < 2^31. */
void random_permutation(uint64_t seed, uint32_t purpose, uint64_t step, int64_t n,
                        int32_t *order);

#endif
