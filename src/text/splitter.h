/*
 * splitter - cuts a text into words at a literal string, as tokenizer.json's "Split"
 * pre-tokeniser does. Several splits are applied one after the other.
 */
#ifndef TEXT_SPLITTER_H
#define TEXT_SPLITTER_H

#include "base/base.h"

/* What becomes of the separators. */
enum splitter_behavior {
    SPLITTER_REMOVED,
    SPLITTER_ISOLATED,
    SPLITTER_MERGED_WITH_PREVIOUS,
    SPLITTER_MERGED_WITH_NEXT,
    SPLITTER_CONTIGUOUS, /* neighbouring separators stand together */
};

struct splitter {
    struct splitter_step *steps; /* [n] in order */
    size_t n;
    size_t capacity;
};

struct splitter_span {
    size_t from;
    size_t to;
    bool is_separator;
};

/* Starts zeroed, keeps its memory. */
struct splitter_spans {
    struct splitter_span *items; /* [n], none empty, in order */
    size_t n;
    size_t capacity;
};

void splitter_deinit(struct splitter *splitter); /* takes a zeroed one */

/* With is_inverted the separators are what stands between the matches of `pattern`,
 * which is not empty. */
void splitter_add(struct splitter *splitter, const char *pattern,
                  enum splitter_behavior behavior, bool is_inverted);

/* Fills *out with the words of text[0 .. length); *spare is scratch. */
void splitter_run(const struct splitter *splitter, const char *text, size_t length,
                  struct splitter_spans *out, struct splitter_spans *spare);
void splitter_spans_deinit(struct splitter_spans *spans);

#endif
