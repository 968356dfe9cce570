/*
 * added_tokens - tokens that are found in the text before anything else is done to it.
 *
 * A trie over their bytes. At each place of the text the longest one that begins there
 * wins, and the first place wins over later ones. (llama.cpp takes the longest token of
 * the whole text first; the two agree unless two different tokens overlap partly, which
 * those of Gemma never do.)
 */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include "base/base.h"

struct added_tokens {
    struct added_node *nodes; /* [n_nodes]; 0 is not used */
    size_t n_nodes;
    size_t capacity;
    uint32_t root[256]; /* node of each first byte, 0 = none */
    size_t n_tokens;
};

void added_tokens_deinit(struct added_tokens *added); /* takes a zeroed one */

/* Adds a token, length at least 1. */
void added_tokens_add(struct added_tokens *added, const char *text, size_t length,
                      int32_t id);

/* The first match in text[from .. length): its place, *id and *match_length; `length`
 * when there is none. */
size_t added_tokens_find(const struct added_tokens *added, const char *text,
                         size_t length, size_t from, int32_t *id, size_t *match_length);

#endif
