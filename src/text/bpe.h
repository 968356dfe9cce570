/*
 * bpe - byte-pair encoding: a word to the ids that its merges leave.
 *
 * The word begins as its characters; again and again the pair of neighbours that merges
 * first is joined, the leftmost one where two are equal, until no pair merges. There
 * are two kinds of order:
 *
 * - by rank: the pairs of the file's merge list (Hugging Face);
 * - by score: any two neighbours whose joined text is a token, highest score first
 *   (llama.cpp, sentencepiece).
 *
 * Characters that are no token become byte tokens.
 *
 *     struct bpe bpe = {.vocabulary = &vocabulary, .has_byte_fallback = true, ...};
 *     bpe_prepare(&bpe);
 *     bpe_encode(&bpe, &work, word, length, emit, context);
 */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include <stdatomic.h>

#include "base/base.h"
#include "text/merges.h"

struct vocabulary;

/* Classes of characters for borders that no merge crosses: ASCII, U+2581, others. */
enum { BPE_N_CLASSES = 130 };

/* A state that several threads may find out at once. */
struct bpe_whole {
    atomic_uchar state;
};

struct bpe {
    const struct vocabulary *vocabulary; /* borrowed, complete */
    struct merges merges;                /* by rank */
    int32_t *rank_of_id; /* [n_ids] by score: rank of the token's score; else NULL */
    int32_t unknown;     /* id for what has no token at all, -1 = left out */
    bool has_byte_fallback;
    bool fuses_unknown;  /* neighbouring unknown characters give one id */
    bool ignores_merges; /* a word that is a token stays whole */

    /* Made by bpe_prepare. */
    int32_t byte_id[256];
    int32_t ascii_id[128];
    bool is_crossed[BPE_N_CLASSES][BPE_N_CLASSES]; /* some merge joins a b */
    struct bpe_whole *whole; /* [n_ids] what encoding the token's own text gives */
};

/* Scratch of one thread; starts zeroed, keeps its memory between words. */
struct bpe_work {
    struct bpe_symbol *symbols;
    size_t symbols_capacity;
    struct bpe_candidate *heap;
    size_t heap_capacity;
};

/* Called for each id in order; from = byte of the word where the token begins. */
typedef void (*bpe_emit_fn)(void *context, int32_t id, size_t from);

/* Makes the derived tables, when vocabulary and merges are complete. */
void bpe_prepare(struct bpe *bpe);
void bpe_deinit(struct bpe *bpe); /* takes a zeroed one */

/* Encodes word[0 .. length), length under 2^31. Any number of threads, each with its
 * own work. */
void bpe_encode(const struct bpe *bpe, struct bpe_work *work, const char *word,
                size_t length, bpe_emit_fn emit, void *context);
void bpe_work_deinit(struct bpe_work *work);

#endif
