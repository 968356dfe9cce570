/*
 * native_random - Philox 4x32-10 of many blocks at once, word for word as base/random.c.
 *
 * Loops over arrays of blocks, which the compiler turns into vectors: products of two
 * 32-bit words are what vector units have.
 */
#include "backend/cpu/native/native_isa.h"
#include "backend/cpu/native/vector.h"

enum { AT_ONCE = 4 * VECTOR_LANES }; /* blocks of four words */

/* The state of AT_ONCE blocks: counter words by word, then by block. */
struct blocks {
    uint32_t word[4][AT_ONCE];
};

/* Ten rounds as in random_philox; the key is the same for all blocks. */
static void run_rounds(struct blocks *blocks, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            const uint64_t product0 = (uint64_t)0xD2511F53u * blocks->word[0][i];
            const uint64_t product1 = (uint64_t)0xCD9E8D57u * blocks->word[2][i];
            blocks->word[0][i] = (uint32_t)(product1 >> 32) ^ blocks->word[1][i] ^ key0;
            blocks->word[1][i] = (uint32_t)product1;
            blocks->word[2][i] = (uint32_t)(product0 >> 32) ^ blocks->word[3][i] ^ key1;
            blocks->word[3][i] = (uint32_t)product0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* Words of the blocks from `block` on, in the order of the stream. */
static void make_words(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t block,
                       uint32_t words[4 * AT_ONCE])
{
    struct blocks blocks;
    for (int i = 0; i < AT_ONCE; i++) {
        blocks.word[0][i] = (uint32_t)(block + (uint64_t)i);
        blocks.word[1][i] = (uint32_t)((block + (uint64_t)i) >> 32);
        blocks.word[2][i] = (uint32_t)step;
        blocks.word[3][i] = (uint32_t)(step >> 32) << 16 | purpose;
    }
    run_rounds(&blocks, (uint32_t)seed, (uint32_t)(seed >> 32));
    for (int i = 0; i < AT_ONCE; i++) {
        for (int j = 0; j < 4; j++) {
            words[4 * i + j] = blocks.word[j][i];
        }
    }
}

/* `first` may lie inside a block: words before it and behind the last are made and
 * left. */
void NATIVE(random_words)(uint64_t seed, uint32_t purpose, uint64_t step,
                          uint64_t first, int64_t n, uint32_t *words)
{
    uint32_t made[4 * AT_ONCE];
    int64_t done = 0;
    while (done < n) {
        const uint64_t at = first + (uint64_t)done;
        const int64_t skipped = (int64_t)(at % 4);
        const int64_t count = base_min(4 * AT_ONCE - skipped, n - done);
        make_words(seed, purpose, step, at / 4, made);
        memcpy(words + done, made + skipped, (size_t)count * sizeof *words);
        done += count;
    }
}
