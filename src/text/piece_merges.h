/*
 * piece_merges - the list of merges that a vocabulary with scores stands for.
 *
 * sentencepiece merges any two neighbours whose joined text is a piece, best score first.
 * The Hugging Face form lists such pairs instead, in the order in which they merge: every
 * way to cut a piece into two other pieces is a pair, pieces in the order of their ranks,
 * and of one piece the cut with the longest left part first. That is the order that
 * transformers' own conversion gives.
 */
#ifndef TEXT_PIECE_MERGES_H
#define TEXT_PIECE_MERGES_H

#include "base/base.h"

struct vocabulary;

enum { PIECE_MERGES_MAX_BYTES = 4096 }; /* of a piece that is cut */

/* Called for each pair in order; the texts live as long as the vocabulary. */
typedef void (*piece_merges_fn)(void *context, const char *left, size_t left_length,
                                const char *right, size_t right_length);

/* ranks[pieces->n_ids]: lower merges first, equal ones by id. Longer pieces than
 * PIECE_MERGES_MAX_BYTES are not cut. */
void piece_merges_list(const struct vocabulary *pieces, const int32_t *ranks,
                       piece_merges_fn add, void *context);

#endif
