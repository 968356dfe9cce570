/*
 * tokenizer_build - makes small tokenizer.json texts, shaped like Gemma's, for tests.
 *
 *     struct tokenizer_build build = {0};
 *     tokenizer_build_begin(&build);
 *     tokenizer_build_word(&build, "\u2581the");
 *     struct tokenizer *tokenizer = tokenizer_build_finish(&build, NULL);
 *
 * Ids: <pad> 0, <eos> 1, <bos> 2, <unk> 3, byte tokens 4 .. 259, then what is added.
 */
#ifndef SUPPORT_TOKENIZER_BUILD_H
#define SUPPORT_TOKENIZER_BUILD_H

#include "base/str.h"
#include "text/vocabulary.h"

struct tokenizer;

struct tokenizer_build {
    struct vocabulary tokens;
    struct str vocab;  /* members of the JSON object */
    struct str merges; /* elements of the JSON array */
    struct str added;  /* elements of the JSON array, each behind a comma */
    int32_t n_ids;
    int n_merges;
};

void tokenizer_build_begin(struct tokenizer_build *build);

/* A token, unless it is there already; its id. */
int32_t tokenizer_build_token(struct tokenizer_build *build, const char *text);

/* left and right (made tokens if need be) merge; their joined text becomes a token. */
void tokenizer_build_merge(struct tokenizer_build *build, const char *left,
                           const char *right);

/* Characters and merges so that the word becomes one token, built from the left. */
void tokenizer_build_word(struct tokenizer_build *build, const char *word);

/* An added token, matched in the raw text. */
int32_t tokenizer_build_added(struct tokenizer_build *build, const char *text,
                              bool is_special);

/* The whole file. */
void tokenizer_build_json(const struct tokenizer_build *build, struct str *json);

/* The tokenizer (config: text of tokenizer_config.json or NULL); the build is done
 * with. A failure ends the test program. */
struct tokenizer *tokenizer_build_finish(struct tokenizer_build *build,
                                         const char *config);

/* Printable ASCII, some merges, "\n" and "\n\n" as added tokens, "<turn>" a special
 * one. */
struct tokenizer *tokenizer_build_small(void);

#endif
