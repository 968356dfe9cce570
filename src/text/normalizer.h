/*
 * normalizer - what is done to the text before it is cut into words: literal
 * replacements and a prefix.
 *
 * Every byte of the result knows the byte of the source that it comes from, so that
 * tokens can be traced back to the text.
 */
#ifndef TEXT_NORMALIZER_H
#define TEXT_NORMALIZER_H

#include "base/base.h"

enum normalizer_kind { NORMALIZER_REPLACE, NORMALIZER_PREPEND };

struct normalizer {
    struct normalizer_step *steps; /* [n] in order */
    size_t n;
    size_t capacity;
};

/* A text with origins; starts zeroed, keeps its memory. */
struct normalizer_text {
    char *text;       /* [n] */
    uint32_t *origin; /* [n] byte of the source */
    size_t n;
    size_t capacity;
};

void normalizer_deinit(struct normalizer *normalizer); /* takes a zeroed one */

/* REPLACE: each `pattern` (not empty) becomes `content`. PREPEND: `content` goes in
 * front of a text that is not empty; `pattern` is not used. */
void normalizer_add(struct normalizer *normalizer, enum normalizer_kind kind,
                    const char *pattern, const char *content);

/* Fills *out from text[0 .. length); *spare is scratch. */
void normalizer_run(const struct normalizer *normalizer, const char *text,
                    size_t length, struct normalizer_text *out,
                    struct normalizer_text *spare);
void normalizer_text_deinit(struct normalizer_text *text);

#endif
