/*
 * row - one row of input on its way to an example: growing arrays, reused from row to
 * row.
 *
 * row_from_text and row_from_tokens fill it; records.c then copies it into its arena.
 */
#ifndef DATA_ROW_H
#define DATA_ROW_H

#include <jansson.h>

#include "base/base.h"
#include "text/token_list.h"

struct error;
struct tokenizer;

struct row {
    struct token_list tokens; /* the ids */
    float *weight;            /* [n] of each token as a target */
    int32_t *document_from;   /* [n_documents] */
    size_t n_documents;
    size_t n; /* tokens.n, or less once cut */
    size_t weight_capacity;
    size_t documents_capacity;
};

void row_deinit(struct row *row); /* takes a zeroed one */
void row_clear(struct row *row);

/* Appends a token. */
void row_add(struct row *row, int32_t id, float weight);

/* The next token begins a document. */
void row_begin_document(struct row *row);

/* Keeps the first n tokens and the documents that begin there; first tokens of
 * documents lose their weight, as nothing predicts them. Returns the number of
 * targets. */
int32_t row_finish(struct row *row, size_t n);

/*
 * A text whose response is text[border .. length). Tokens that hold a byte of it carry
 * loss; all tokens do where has_loss_on_all. BOS goes in front where the tokenizer adds
 * one and the text does not begin with it; another BOS inside is an error. With
 * ends_with_eos EOS follows (unless the text ends with it) and carries loss.
 */
MUST_USE bool row_from_text(struct row *row, const struct tokenizer *tokenizer,
                            const char *text, size_t length, size_t border,
                            bool has_loss_on_all, bool ends_with_eos,
                            struct error *err);

/*
 * A token row: input_ids, and where they are there labels (-100 = no target, else the
 * id itself), position_ids (a restart begins a document), attention_mask (0 = padding,
 * which is left out), weight (of all targets of the row). Ids must be below
 * n_vocabulary, unless that is 0.
 */
MUST_USE bool row_from_tokens(struct row *row, const json_t *object,
                              int32_t n_vocabulary, struct error *err);

#endif
