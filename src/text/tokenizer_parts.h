/*
 * tokenizer_parts - what a tokenizer consists of; only for the files that build one.
 */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "base/base.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/splitter.h"
#include "text/vocabulary.h"

struct gguf;
struct error;

enum { TOKENIZER_MAX_AFFIX = 8 }; /* tokens before or after a text */

/* What a piece of a GGUF vocabulary is (tokenizer.ggml.token_type). */
enum tokenizer_piece {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_USER_DEFINED = 4,
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6,
};

struct tokenizer {
    struct vocabulary vocabulary;
    struct added_tokens raw;        /* found in the text as it is */
    struct normalizer normalizer;   /* then this, on what lies between them */
    struct added_tokens normalized; /* found in the normalised text */
    struct splitter splitter;       /* then words */
    struct bpe bpe;                 /* then ids */
    struct decoder decoder;
    int32_t prefix[TOKENIZER_MAX_AFFIX]; /* [n_prefix] around a text with specials */
    int32_t suffix[TOKENIZER_MAX_AFFIX]; /* [n_suffix] */
    int n_prefix;
    int n_suffix;
    int32_t bos; /* -1 = none */
    int32_t eos;
    int32_t pad;
    uint64_t fingerprint; /* XXH3 of what was read */
};

/* Fills a zeroed tokenizer but for the derived tables. On failure the caller destroys
 * it. config_path may be NULL. */
MUST_USE bool tokenizer_json_read(struct tokenizer *tokenizer, const char *path,
                                  const char *config_path, struct error *err);
MUST_USE bool tokenizer_json_parse(struct tokenizer *tokenizer, const char *text,
                                   size_t length, const char *where, struct error *err);
/* The same for the text of tokenizer_config.json; length 0 = there is none. */
MUST_USE bool tokenizer_json_configure(struct tokenizer *tokenizer, const char *text,
                                       size_t length, const char *where,
                                       struct error *err);
MUST_USE bool tokenizer_gguf_read(struct tokenizer *tokenizer, const struct gguf *gguf,
                                  struct error *err);

#endif
