/*
 * merges - which two tokens merge into which, and how early.
 *
 * A lookup table over pairs of ids. The rank is the place in the file's list: lower
 * merges first.
 */
#ifndef TEXT_MERGES_H
#define TEXT_MERGES_H

#include "base/base.h"

enum { MERGES_NO_RANK = 0x7fffffff };

struct merge {
    int32_t left; /* -1 = empty slot */
    int32_t right;
    int32_t rank;
    int32_t merged; /* the token that the two become */
};

struct merges {
    struct merge *slots; /* [n_slots], a power of two */
    size_t n_slots;
    size_t n;
};

void merges_deinit(struct merges *merges); /* takes a zeroed one */

/* Makes room for about n pairs, so that adding them need not grow the table. */
void merges_reserve(struct merges *merges, size_t n);

/* Adds a pair; a pair that is there already gets the new rank. */
void merges_add(struct merges *merges, struct merge merge);

/* The merge of two tokens (negative ids merge with nothing), or NULL. */
const struct merge *merges_find(const struct merges *merges, int32_t left,
                                int32_t right);

#endif
