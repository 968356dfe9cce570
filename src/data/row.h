/*
 * row - one row of input on its way to an example: growing arrays, reused from row to
 * row.
 *
 * row_from_text, row_from_tokens and row_from_chat fill it; records.c then copies it into
 * its arena.
 */
#ifndef DATA_ROW_H
#define DATA_ROW_H

#include <jansson.h>

#include "base/base.h"
#include "text/chat.h"
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
    bool has_lost_thought; /* chat: a thought of a model turn was left out */
    /* What filling it failed at: a key of the JSON row, as long as that is there; NULL:
     * the row as a whole, or something that it lacks. */
    const char *fault_field;
};

void row_deinit(struct row *row); /* takes a zeroed one */
void row_clear(struct row *row);

/* Appends a token. */
void row_add(struct row *row, int32_t id, float weight);

/* Gives the first token that has no weight yet its weight. */
void row_weigh(struct row *row, float weight);

/* The next token begins a document. */
void row_begin_document(struct row *row);

/* Keeps the first n tokens and the documents that begin there; first tokens of
 * documents lose their weight, as nothing predicts them. Returns the number of
 * targets. */
int32_t row_finish(struct row *row, size_t n);

/* Whether a field says nothing: not there, null, an empty list or an empty text. Rows that
 * came through a table have every field that any row has, so such a field is absent for
 * those who would refuse it. */
bool row_says_nothing(const json_t *value);

/* A weight as rows and messages have it, from 0 to 10^6; 1 where it is NULL or null. */
MUST_USE bool row_read_weight(const json_t *value, float *weight, struct error *err);

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

/* How chat rows become tokens. */
struct row_chat_options {
    enum chat_format format;
    bool has_loss_on_last;     /* of the model turns only the last carries loss */
    bool has_loss_on_all;      /* every token does */
    const char *const *ignore; /* [n_ignore] fields of messages left out on purpose */
    size_t n_ignore;
};

/*
 * A conversation: `messages`, an array of {role, content}, or as ShareGPT has it
 * `conversations` of {from, value} with the roles human and gpt. content is a text or a
 * list of {type: "text", text}. Model turns carry loss, from their first token to the
 * mark that ends the turn; BOS goes in front, exactly once. A model turn may have a
 * weight (0 = only context). Other fields of messages that are not null are an error
 * unless they are named in ignore. A conversation need not end with a model turn; one
 * without any carries no loss.
 */
MUST_USE bool row_from_chat(struct row *row, const json_t *object,
                            const struct row_chat_options *options,
                            const struct tokenizer *tokenizer, struct error *err);

#endif
