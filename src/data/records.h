/*
 * records - JSONL rows to examples: token ids with a loss weight for each token.
 *
 *     struct records records = {0};
 *     struct records_options options = {.format = RECORDS_INSTRUCTION, ...};
 *     if (!records_read_file(&records, "train.jsonl", &options, tokenizer, err)) ...
 *     ... records_example(&records, i) ...
 *     records_deinit(&records);
 *
 * A row of text is encoded as a whole, prompt and response together, because that is
 * what the model meets in running text ("Response: 5" holds the token " 5", not a space
 * and "5"). With loss on responses, each token that holds a byte of the response
 * carries loss; a token on the border may hold the end of the prompt as well.
 *
 * Padding is stripped here, so neither its side nor its amount can matter later. Rows
 * longer than row_tokens are cut and counted; examples without a loss token are dropped
 * and counted. A broken row is an error with file, line and column.
 */
#ifndef DATA_RECORDS_H
#define DATA_RECORDS_H

#include "base/base.h"
#include "text/chat.h"

struct arena;
struct error;
struct tokenizer;

enum records_format {
    RECORDS_CHAT,              /* field messages: turns of a conversation */
    RECORDS_PROMPT_COMPLETION, /* fields prompt and completion */
    RECORDS_INSTRUCTION,       /* prompt from the template, response from a field */
    RECORDS_TEXT,              /* field text, loss on everything */
    RECORDS_TOKENS, /* input_ids, labels, position_ids, attention_mask, weight */
};

/* Which tokens of a row are learned. Token rows say it themselves, with labels. */
enum records_loss_on {
    RECORDS_LOSS_ON_RESPONSE,      /* responses, of chat rows every model turn */
    RECORDS_LOSS_ON_LAST_RESPONSE, /* of chat rows the last model turn only */
    RECORDS_LOSS_ON_ALL,
};

/* What happens to an example longer than row_tokens. */
enum records_overlong { RECORDS_TRUNCATE, RECORDS_DROP, RECORDS_SPLIT };

struct records_options {
    enum records_format format;
    const char *template_text; /* instruction: "Q: {question}\nA: ", {{ for a brace */
    const char *response;      /* instruction: the field that holds the response */
    const char *const *ignore; /* [n_ignore] fields left out on purpose */
    size_t n_ignore;
    enum chat_format chat_format; /* chat: the format of turns */
    bool ends_with_eos;           /* EOS follows each row of text, with loss */
    enum records_loss_on loss_on;
    enum records_overlong overlong;
    int32_t row_tokens;   /* longest example; 0 = no limit */
    int64_t max_rows;     /* rows read from the file; 0 = all */
    int64_t max_bad_rows; /* broken rows that are left out; one more is an error */
    int32_t n_vocabulary; /* token rows: ids must be below; 0 = the tokenizer's count */
};

struct example {
    const int32_t *ids;           /* [n] */
    const float *loss_weight;     /* [n] weight with which this token is a target */
    const int32_t *document_from; /* [n_documents] first token of each; [0] is 0 */
    int32_t n;
    int32_t n_documents;
    int32_t n_targets;  /* tokens with a weight above 0 */
    int32_t source;     /* index into records.sources: the file it is from */
    int64_t source_row; /* from 0, blank lines not counted */
    int64_t line;       /* in the file, from 1, for messages */
};

struct records_source {
    char *name;    /* the file, as it was given */
    size_t n;      /* examples of it */
    double weight; /* how often an epoch takes each of its examples */
};

struct records {
    struct arena *arena; /* holds the arrays of the examples */
    struct example *examples;
    size_t n;
    size_t capacity;
    struct records_source
        *sources; /* [n_sources] in the order in which they were read */
    int32_t n_sources;
    size_t sources_capacity;
    int64_t n_rows;      /* rows read */
    int64_t n_truncated; /* rows that were cut to row_tokens */
    int64_t n_dropped;   /* rows without a loss token, left out */
    int64_t n_tokens;    /* of all examples */
    int64_t n_targets;
};

/*
 * Appends the rows of a file to *records (zeroed before the first call). The tokenizer
 * may be NULL for token rows. On failure *records holds what was read before; deinit
 * it.
 */
MUST_USE bool records_read_file(struct records *records, const char *path,
                                const struct records_options *options,
                                const struct tokenizer *tokenizer, struct error *err);

/* The same from text[0 .. length); `where` names it in messages. */
MUST_USE bool records_read_text(struct records *records, const char *text,
                                size_t length, const char *where,
                                const struct records_options *options,
                                const struct tokenizer *tokenizer, struct error *err);

void records_deinit(struct records *records); /* takes a zeroed one */

/* Example i, in the order of the files. Its arrays live as long as the records. Any
 * number of threads may ask at once. */
struct example records_example(const struct records *records, size_t i);

/* "prompt-completion", "instruction", "text", "tokens". */
MUST_USE bool records_format_from_name(const char *name, enum records_format *format);
const char *records_format_name(enum records_format format);

#endif
