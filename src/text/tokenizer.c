/*
 * tokenizer - the stages in order: added tokens, normaliser, words, merging, specials.
 */
#include "text/tokenizer.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/tokenizer_parts.h"

/* Zeroed, without special tokens. */
static struct tokenizer *new_tokenizer(void)
{
    struct tokenizer *tokenizer = mem_alloc(sizeof(*tokenizer));
    tokenizer->bos = -1;
    tokenizer->eos = -1;
    tokenizer->pad = -1;
    return tokenizer;
}

/* The derived tables of a tokenizer that was read, or NULL and nothing left of it. */
static struct tokenizer *finish(struct tokenizer *owned_tokenizer, bool is_read)
{
    if (!is_read) {
        tokenizer_destroy(owned_tokenizer);
        return NULL;
    }
    owned_tokenizer->bpe.vocabulary = &owned_tokenizer->vocabulary;
    bpe_prepare(&owned_tokenizer->bpe);
    return owned_tokenizer;
}

/* A folder without tokenizer_config.json is complete: the special tokens then go by
 * their usual names. */
struct tokenizer *tokenizer_read_folder(const char *folder, struct error *err)
{
    struct tokenizer *tokenizer = new_tokenizer();
    char *path = file_join(folder, "tokenizer.json");
    char *config_path = file_join(folder, "tokenizer_config.json");
    const bool is_read = tokenizer_json_read(
        tokenizer, path, file_exists(config_path) ? config_path : NULL, err);
    mem_free(path);
    mem_free(config_path);
    return finish(tokenizer, is_read);
}

struct tokenizer *tokenizer_parse(const char *json, size_t length, const char *config,
                                  size_t config_length, const char *where,
                                  struct error *err)
{
    struct tokenizer *tokenizer = new_tokenizer();
    const bool is_read = tokenizer_json_parse(tokenizer, json, length, where, err) &&
                         tokenizer_json_configure(tokenizer, config, config_length,
                                                  "tokenizer_config.json", err);
    return finish(tokenizer, is_read);
}

struct tokenizer *tokenizer_read_gguf(const struct gguf *gguf, struct error *err)
{
    struct tokenizer *tokenizer = new_tokenizer();
    return finish(tokenizer, tokenizer_gguf_read(tokenizer, gguf, err));
}

/* Every part takes its zeroed state, so this also serves a tokenizer that was read only
 * in part. */
void tokenizer_destroy(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    bpe_deinit(&tokenizer->bpe);
    vocabulary_deinit(&tokenizer->vocabulary);
    added_tokens_deinit(&tokenizer->raw);
    added_tokens_deinit(&tokenizer->normalized);
    normalizer_deinit(&tokenizer->normalizer);
    splitter_deinit(&tokenizer->splitter);
    decoder_deinit(&tokenizer->decoder);
    mem_free(tokenizer);
}

/* --- encoding --------------------------------------------------------------------- */

/* Scratch of one call, and where the current word lies. */
struct encoding {
    const struct tokenizer *tokenizer;
    struct token_list *out;
    struct normalizer_text normal; /* the current segment, normalised */
    struct normalizer_text spare_normal;
    struct splitter_spans words; /* of the current stretch, places within it */
    struct splitter_spans spare_words;
    struct bpe_work work;
    size_t segment_from; /* of the segment in the whole text */
    size_t word_from;    /* of the word in the normalised segment */
};

/* A token of the current word: its place goes back through normaliser and segment.
 * place = segment_from + origin[word_from + from]. It fits 32 bits, as a text has at
 * most TOKENIZER_MAX_BYTES. */
static void emit(void *context, int32_t id, size_t from)
{
    struct encoding *encoding = context;
    const size_t origin = encoding->normal.origin[encoding->word_from + from];
    token_list_add(encoding->out, id, (uint32_t)(encoding->segment_from + origin));
}

/* Normalised text [from, to) of the segment without added tokens. An empty stretch, as
 * between two added tokens, has no words. */
static void encode_stretch(struct encoding *encoding, size_t from, size_t to)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    const char *text = encoding->normal.text;
    if (from == to) {
        return;
    }
    splitter_run(&tokenizer->splitter, text + from, to - from, &encoding->words,
                 &encoding->spare_words);
    for (size_t i = 0; i < encoding->words.n; i++) {
        const struct splitter_span *word = &encoding->words.items[i];
        encoding->word_from = from + word->from;
        bpe_encode(&tokenizer->bpe, &encoding->work, text + encoding->word_from,
                   word->to - word->from, emit, encoding);
    }
}

/* Raw text without added tokens that are matched raw. Added tokens that are matched in
 * normalised text are found here, after the normaliser and before the words: the
 * reference library does it in this order. */
static void encode_segment(struct encoding *encoding, const char *text, size_t length)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    normalizer_run(&tokenizer->normalizer, text, length, &encoding->normal,
                   &encoding->spare_normal);
    const struct normalizer_text *normal = &encoding->normal;
    size_t from = 0;
    while (from < normal->n) {
        int32_t id;
        size_t match_length = 0;
        const size_t at = added_tokens_find(&tokenizer->normalized, normal->text,
                                            normal->n, from, &id, &match_length);
        encode_stretch(encoding, from, at);
        if (at < normal->n) {
            token_list_add(encoding->out, id,
                           (uint32_t)(encoding->segment_from + normal->origin[at]));
        }
        from = at + match_length;
    }
}

/* Added tokens split the text into segments; between two of them everything else
 * happens. The normaliser runs on each segment by itself, so a prefix that it adds goes
 * in front of each, as in the reference library. Scratch is made here and not kept: a
 * tokenizer is shared by threads and holds nothing that changes. */
void tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
                      size_t length, bool add_special, struct token_list *out)
{
    ASSERT(length <= TOKENIZER_MAX_BYTES);
    struct encoding encoding = {.tokenizer = tokenizer, .out = out};
    for (int i = 0; add_special && i < tokenizer->n_prefix; i++) {
        token_list_add(out, tokenizer->prefix[i], 0);
    }
    size_t from = 0;
    while (from < length) {
        int32_t id;
        size_t match_length = 0;
        const size_t at =
            added_tokens_find(&tokenizer->raw, text, length, from, &id, &match_length);
        encoding.segment_from = from;
        encode_segment(&encoding, text + from, at - from);
        if (at < length) {
            token_list_add(out, id, (uint32_t)at);
        }
        from = at + match_length;
    }
    for (int i = 0; add_special && i < tokenizer->n_suffix; i++) {
        token_list_add(out, tokenizer->suffix[i], (uint32_t)length);
    }
    normalizer_text_deinit(&encoding.normal);
    normalizer_text_deinit(&encoding.spare_normal);
    splitter_spans_deinit(&encoding.words);
    splitter_spans_deinit(&encoding.spare_words);
    bpe_work_deinit(&encoding.work);
}

/* --- the rest --------------------------------------------------------------------- */

/* Where the decoder has a Fuse step, its last steps see the whole text from `from` on,
 * so texts of several calls do not run into each other. */
void tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t n,
                      bool skip_special, struct str *out)
{
    const size_t from = out->length;
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const char *text = vocabulary_text(&tokenizer->vocabulary, ids[i], &length);
        if (text != NULL &&
            !(skip_special && tokenizer_is_special(tokenizer, ids[i]))) {
            decoder_token(&tokenizer->decoder, text, length, out);
        }
    }
    decoder_finish(&tokenizer->decoder, out, from);
}

int32_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->eos;
}

int32_t tokenizer_pad(const struct tokenizer *tokenizer)
{
    return tokenizer->pad;
}

uint64_t tokenizer_fingerprint(const struct tokenizer *tokenizer)
{
    return tokenizer->fingerprint;
}

/* The prefix may hold other tokens than BOS; only its first one counts. */
bool tokenizer_adds_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->bos >= 0 && tokenizer->n_prefix > 0 &&
           tokenizer->prefix[0] == tokenizer->bos;
}

int32_t tokenizer_n_tokens(const struct tokenizer *tokenizer)
{
    return (int32_t)tokenizer->vocabulary.n_ids;
}

int32_t tokenizer_id_of(const struct tokenizer *tokenizer, const char *text)
{
    return vocabulary_find(&tokenizer->vocabulary, text, strlen(text));
}

const char *tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id)
{
    size_t length;
    return vocabulary_text(&tokenizer->vocabulary, id, &length);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (size_t)id < tokenizer->vocabulary.n_ids &&
           (tokenizer->vocabulary.flags[id] & VOCABULARY_SPECIAL) != 0;
}
