/*
 * piece_merges - see the header.
 */
#include "text/piece_merges.h"

#include <stdlib.h>

#include "base/mem.h"
#include "text/vocabulary.h"

/* A piece on its way to its place. */
struct ranked {
    int32_t rank;
    int32_t id;
};

/* By rank, then by id: never equal, so the order is one only. */
static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return x->id < y->id ? -1 : 1;
}

/* All cuts of one piece between two characters, from the right. */
static void cut(const struct vocabulary *pieces, const char *text, size_t length,
                piece_merges_fn add, void *context)
{
    for (size_t at = length - 1; at > 0; at--) {
        /* 10xxxxxx: inside a character. */
        if (((unsigned char)text[at] & 0xC0) == 0x80) {
            continue;
        }
        if (vocabulary_find(pieces, text, at) >= 0 &&
            vocabulary_find(pieces, text + at, length - at) >= 0) {
            add(context, text, at, text + at, length - at);
        }
    }
}

void piece_merges_list(const struct vocabulary *pieces, const int32_t *ranks,
                       piece_merges_fn add, void *context)
{
    struct ranked *order = mem_alloc_array(pieces->n_ids, sizeof(*order));
    for (size_t i = 0; i < pieces->n_ids; i++) {
        order[i] = (struct ranked){.rank = ranks[i], .id = (int32_t)i};
    }
    qsort(order, pieces->n_ids, sizeof(*order), by_rank);
    for (size_t i = 0; i < pieces->n_ids; i++) {
        size_t length;
        const char *text = vocabulary_text(pieces, order[i].id, &length);
        if (text != NULL && length <= PIECE_MERGES_MAX_BYTES) {
            cut(pieces, text, length, add, context);
        }
    }
    mem_free(order);
}
