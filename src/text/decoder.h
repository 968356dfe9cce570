/*
 * decoder - token texts to text: literal replacements, byte tokens, stripping.
 *
 * Steps before "Fuse" work on each token, those after it on the whole text.
 */
#ifndef TEXT_DECODER_H
#define TEXT_DECODER_H

#include "base/base.h"

struct str;

enum decoder_kind {
    DECODER_REPLACE,       /* pattern becomes content */
    DECODER_BYTE_FALLBACK, /* "<0xHH>" becomes that byte */
    DECODER_FUSE,          /* the tokens become one text */
    DECODER_STRIP,         /* up to start / stop times content at the ends */
};

struct decoder_step {
    enum decoder_kind kind;
    char *pattern;
    char *content;
    int64_t start;
    int64_t stop;
};

struct decoder {
    struct decoder_step *steps; /* [n] in order */
    size_t n;
    size_t capacity;
};

void decoder_deinit(struct decoder *decoder); /* takes a zeroed one */

/* Adds a step; REPLACE needs a pattern, the others use neither string (NULL then). */
void decoder_add(struct decoder *decoder, enum decoder_kind kind, const char *pattern,
                 const char *content);
void decoder_add_strip(struct decoder *decoder, const char *content, int64_t start,
                       int64_t stop);

/* Appends a token's text to *out; call decoder_finish after the last one with the
 * length that *out had before the first. */
void decoder_token(const struct decoder *decoder, const char *text, size_t length,
                   struct str *out);
void decoder_finish(const struct decoder *decoder, struct str *out, size_t from);

#endif
