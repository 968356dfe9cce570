/*
 * tokenizer_gguf - the "llama" vocabulary of a GGUF file, as llama.cpp uses it.
 *
 * Pieces have scores; any two neighbours merge whose joined text is a piece. Control
 * and user-defined pieces are found in the raw text first. Space becomes U+2581 in what
 * is left; some user-defined pieces hold real spaces (Gemma's runs of two and more),
 * and these match before that.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/mem.h"
#include "formats/gguf.h"
#include "text/tokenizer_parts.h"

/* A key that may be missing; *value keeps its default then. A key of another type is an
 * error all the same: a default in its place would hide a damaged file. */
static bool optional_bool(const struct gguf *gguf, const char *key, bool *value,
                          struct error *err)
{
    return !gguf_has(gguf, key) || gguf_bool(gguf, key, value, err);
}

/* A token id that may be missing; any negative number means "none". */
static bool optional_id(const struct gguf *gguf, const char *key, int64_t fallback,
                        size_t n, int32_t *id, struct error *err)
{
    int64_t value = fallback;
    if (gguf_has(gguf, key) && !gguf_integer(gguf, key, &value, err)) {
        return false;
    }
    if (value >= (int64_t)n) {
        return error_set(err, ERROR_DATA, "%s is %lld, the vocabulary has %zu tokens",
                         key, (long long)value, n);
    }
    *id = value < 0 ? -1 : (int32_t)value;
    return true;
}

/* Enters the texts; those that are matched in raw text go into the trie as well. A file
 * without types has only normal pieces. Unknown and control pieces are special: decoded
 * text may leave them out. */
static bool add_pieces(struct tokenizer *tokenizer, const struct gguf_text *texts,
                       const int32_t *types, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const int32_t type = types == NULL ? PIECE_NORMAL : types[i];
        uint8_t flags = VOCABULARY_MODEL;
        if (type == PIECE_CONTROL || type == PIECE_UNKNOWN) {
            flags |= VOCABULARY_SPECIAL;
        }
        if (!vocabulary_add(&tokenizer->vocabulary, (int64_t)i, texts[i].bytes,
                            texts[i].length, flags, err)) {
            return error_wrap(err, "tokenizer.ggml.tokens");
        }
        if (type == PIECE_CONTROL || type == PIECE_USER_DEFINED ||
            type == PIECE_UNKNOWN) {
            added_tokens_add(&tokenizer->raw, texts[i].bytes, texts[i].length,
                             (int32_t)i);
        }
    }
    return true;
}

/* A piece on its way to a rank. */
struct scored {
    float score; /* log probability; higher merges first */
    int32_t id;
};

/* Highest score first. Equal scores may end in either order, which is why rank_scores
 * gives them one rank. */
static int by_score(const void *a, const void *b)
{
    const struct scored *x = a;
    const struct scored *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

/* Ranks: 0 for the highest score, equal scores share one. Merging then compares
 * integers, and both kinds of order (bpe.h) say "lower is sooner". A score that is not
 * a number would make the sort itself meaningless. */
static bool rank_scores(struct tokenizer *tokenizer, const float *scores, size_t n,
                        struct error *err)
{
    struct scored *order = mem_alloc_array(n, sizeof(*order));
    bool is_finite = true;
    for (size_t i = 0; i < n; i++) {
        order[i] = (struct scored){.score = scores[i], .id = (int32_t)i};
        if (!isfinite(scores[i])) {
            is_finite = error_set(err, ERROR_DATA,
                                  "tokenizer.ggml.scores: score %zu is not finite", i);
            break;
        }
    }
    if (is_finite) {
        qsort(order, n, sizeof(*order), by_score);
        tokenizer->bpe.rank_of_id = mem_alloc_array(n, sizeof(int32_t));
        int32_t rank = 0;
        for (size_t i = 0; i < n; i++) {
            if (i > 0 && order[i].score < order[i - 1].score) {
                rank++;
            }
            tokenizer->bpe.rank_of_id[order[i].id] = rank;
        }
    }
    mem_free(order);
    return is_finite;
}

/* Only "llama": other models merge by a list that such a file may not even hold. */
static bool check_model(const struct gguf *gguf, struct error *err)
{
    const char *model = gguf_string(gguf, "tokenizer.ggml.model", err);
    if (model == NULL) {
        return false;
    }
    if (strcmp(model, "llama") != 0) {
        return error_set(err, ERROR_DATA,
                         "tokenizer.ggml.model \"%s\" is not supported (\"llama\" is); "
                         "use the model in Hugging Face layout",
                         model);
    }
    return true;
}

/* The fingerprint of the pieces. Each text is hashed with the sum so far as its seed, so
 * borders between texts count. */
static void hash_vocabulary(struct tokenizer *tokenizer, const struct gguf_text *texts,
                            const float *scores, const int32_t *types, size_t n)
{
    uint64_t hash = XXH3_64bits(scores, n * sizeof(*scores));
    if (types != NULL) {
        hash = XXH3_64bits_withSeed(types, n * sizeof(*types), hash);
    }
    for (size_t i = 0; i < n; i++) {
        hash = XXH3_64bits_withSeed(texts[i].bytes, texts[i].length, hash);
    }
    tokenizer->fingerprint = hash;
}

/* Texts, scores and types, of equal counts. Counts are compared before anything is
 * entered, since all three arrays are read by the same index. */
static bool read_vocabulary(struct tokenizer *tokenizer, const struct gguf *gguf,
                            struct error *err)
{
    size_t n;
    size_t n_scores;
    const struct gguf_text *texts = gguf_texts(gguf, "tokenizer.ggml.tokens", &n, err);
    if (texts == NULL) {
        return false;
    }
    const float *scores = gguf_floats(gguf, "tokenizer.ggml.scores", &n_scores, err);
    if (scores == NULL) {
        return false;
    }
    const int32_t *types = NULL;
    size_t n_types = n;
    if (gguf_has(gguf, "tokenizer.ggml.token_type")) {
        types = gguf_integers(gguf, "tokenizer.ggml.token_type", &n_types, err);
        if (types == NULL) {
            return false;
        }
    }
    if (n == 0 || n > VOCABULARY_MAX_TOKENS || n_scores != n || n_types != n) {
        return error_set(err, ERROR_DATA,
                         "tokenizer.ggml: %zu tokens, %zu scores, %zu types: expected "
                         "equal counts of 1 to %d",
                         n, n_scores, n_types, VOCABULARY_MAX_TOKENS);
    }
    hash_vocabulary(tokenizer, texts, scores, types, n);
    return add_pieces(tokenizer, texts, types, n, err) &&
           rank_scores(tokenizer, scores, n, err);
}

/* Spaces, in both directions. The prefix stands before the first word of every segment;
 * decoding takes one space away again at the start of the text. */
static void add_space_rules(struct tokenizer *tokenizer, bool has_space_prefix)
{
    static const char escaped[] = "\xe2\x96\x81";
    static const char space[] = " ";
    normalizer_add(&tokenizer->normalizer, NORMALIZER_REPLACE, space, escaped);
    if (has_space_prefix) {
        normalizer_add(&tokenizer->normalizer, NORMALIZER_PREPEND, NULL, escaped);
    }
    decoder_add(&tokenizer->decoder, DECODER_REPLACE, escaped, space);
    decoder_add(&tokenizer->decoder, DECODER_BYTE_FALLBACK, NULL, NULL);
    decoder_add(&tokenizer->decoder, DECODER_FUSE, NULL, NULL);
    if (has_space_prefix) {
        decoder_add_strip(&tokenizer->decoder, space, 1, 0);
    }
}

/* Defaults of missing keys are those of llama.cpp for this model. Ids are held against
 * the vocabulary, so it is read first. */
bool tokenizer_gguf_read(struct tokenizer *tokenizer, const struct gguf *gguf,
                         struct error *err)
{
    bool adds_bos = true;
    bool adds_eos = false;
    bool has_space_prefix = true;
    if (!check_model(gguf, err) || !read_vocabulary(tokenizer, gguf, err) ||
        !optional_bool(gguf, "tokenizer.ggml.add_bos_token", &adds_bos, err) ||
        !optional_bool(gguf, "tokenizer.ggml.add_eos_token", &adds_eos, err) ||
        !optional_bool(gguf, "tokenizer.ggml.add_space_prefix", &has_space_prefix,
                       err)) {
        return false;
    }
    const size_t n = tokenizer->vocabulary.n_ids;
    const int64_t last = (int64_t)n - 1;
    if (!optional_id(gguf, "tokenizer.ggml.bos_token_id", base_min(1, last), n,
                     &tokenizer->bos, err) ||
        !optional_id(gguf, "tokenizer.ggml.eos_token_id", base_min(2, last), n,
                     &tokenizer->eos, err) ||
        !optional_id(gguf, "tokenizer.ggml.padding_token_id", -1, n, &tokenizer->pad,
                     err) ||
        !optional_id(gguf, "tokenizer.ggml.unknown_token_id", 0, n,
                     &tokenizer->bpe.unknown, err)) {
        return false;
    }
    tokenizer->bpe.has_byte_fallback = true;
    if (adds_bos && tokenizer->bos >= 0) {
        tokenizer->prefix[tokenizer->n_prefix++] = tokenizer->bos;
    }
    if (adds_eos && tokenizer->eos >= 0) {
        tokenizer->suffix[tokenizer->n_suffix++] = tokenizer->eos;
    }
    add_space_rules(tokenizer, has_space_prefix);
    const int32_t rules[] = {tokenizer->bos,         tokenizer->eos, tokenizer->pad,
                             tokenizer->bpe.unknown, adds_bos,       adds_eos,
                             has_space_prefix};
    tokenizer->fingerprint =
        XXH3_64bits_withSeed(rules, sizeof(rules), tokenizer->fingerprint);
    return true;
}
