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
 * longer than row_tokens are cut, left out or split; examples without a loss token are
 * left out; all of that is counted. A broken row is an error with file, line and column,
 * or left out as long as there are few.
 */
#ifndef DATA_RECORDS_H
#define DATA_RECORDS_H

#include "base/base.h"
#include "text/chat.h"

struct error;
struct example_store;
struct pool;
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

/* What the rows of a file, or of several, became. */
struct records_counts {
    int64_t n_rows;          /* lines that are not blank, broken ones too */
    int64_t n_bad;           /* broken rows, left out */
    int64_t n_truncated;     /* rows that were cut to row_tokens */
    int64_t n_too_long;      /* rows that were left out, being longer */
    int64_t n_split;         /* rows that were continued in further examples */
    int64_t n_dropped;       /* rows without a loss token, left out */
    int64_t n_lost_thoughts; /* chat rows of which a model's thought was left out */
    int64_t n_examples;
    int64_t n_tokens;  /* of the examples */
    int64_t n_targets; /* tokens with loss of them */
};

struct records_source {
    char *name;     /* the file, as it was given */
    size_t first;   /* its examples are first .. first + n - 1 */
    size_t n;       /* examples */
    double weight;  /* how often an epoch takes each of them (mixture.h) */
    bool is_cached; /* they were there already, from an earlier run */
    bool is_kept;   /* they are in the cache for later runs */
    struct records_counts counts;
};

struct records {
    size_t n;                       /* examples */
    const int32_t *lengths;         /* [n] tokens of each */
    const int32_t *target_counts;   /* [n] tokens with loss of each */
    struct records_source *sources; /* [n_sources] in the order of reading */
    int32_t n_sources;
    struct records_counts counts; /* of all sources */

    /* For this module and its parts. */
    size_t sources_capacity;
    struct example_store *store; /* may be shared with other records */
    int32_t *chosen;             /* [n] examples of the store, ascending; NULL: all */
    int32_t *chosen_lengths, *chosen_target_counts; /* [n] of them */
};

/*
 * Appends the rows of a file to *records (zeroed before the first call), in memory. The
 * tokenizer may be NULL for token rows. On failure *records holds what was read before;
 * deinit it.
 */
MUST_USE bool records_read_file(struct records *records, const char *path,
                                const struct records_options *options,
                                const struct tokenizer *tokenizer, struct error *err);

/* The same from text[0 .. length); `where` names it in messages. */
MUST_USE bool records_read_text(struct records *records, const char *text,
                                size_t length, const char *where,
                                const struct records_options *options,
                                const struct tokenizer *tokenizer, struct error *err);

/* Told from time to time how many of the `total` bytes of a file have been read. */
typedef void (*records_progress_fn)(void *context, const char *path, int64_t done,
                                    int64_t total);

/* How a file is read by records_open_file. */
struct records_reading {
    struct pool *pool;            /* NULL: the calling thread alone */
    const char *cache_folder;     /* NULL: the user's cache folder */
    double weight;                /* of the source */
    records_progress_fn progress; /* or NULL */
    void *context;                /* of progress */
};

/*
 * Appends the rows of a file, tokenised once and then taken from a cache file that is
 * mapped (row_cache.h), so that memory does not grow with the file. Files below
 * RECORDS_CACHE_FROM_BYTES are read into memory, unless a cache folder is named. Without
 * a usable cache folder of the user's the tokenised rows go to a file that is gone after
 * the run; a folder that is named has to be usable.
 */
enum { RECORDS_CACHE_FROM_BYTES = 1 << 20 };
MUST_USE bool records_open_file(struct records *records, const char *path,
                                const struct records_options *options,
                                const struct tokenizer *tokenizer,
                                const struct records_reading *reading,
                                struct error *err);

/* The folder of cache files: the one that was `named`, or, with NULL, that of the user.
 * NULL: there is none. Freed with mem_free. */
char *records_cache_folder(const char *named, struct error *err);

void records_deinit(struct records *records); /* takes a zeroed one */

/* Example i, in the order of the files. Its arrays live as long as the records. Any
 * number of threads may ask at once. */
struct example records_example(const struct records *records, size_t i);

/* Tells the system that mapped pages which were read can go; they come back by
 * themselves. */
void records_drop(const struct records *records);

/*
 * Keeps only the examples whose chosen[i] is `wanted`, in *records. chosen: [n] of the
 * present ones. Counts of rows stay, those of examples follow.
 */
void records_choose(struct records *records, const bool *chosen, bool wanted);

/* Another set of records with the same examples, which share their memory. */
struct records records_share(const struct records *records);

/* "chat", "prompt-completion", "instruction", "text", "tokens". */
MUST_USE bool records_format_from_name(const char *name, enum records_format *format);
const char *records_format_name(enum records_format format);

#endif
