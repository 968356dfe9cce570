/*
 * vocabulary - token texts and ids, both ways.
 *
 * Texts lie one behind the other in one block; an open-addressing table finds the id of
 * a text. Lookups of a filled vocabulary may come from any thread.
 */
#ifndef TEXT_VOCABULARY_H
#define TEXT_VOCABULARY_H

#include "base/base.h"

struct error;

enum {
    VOCABULARY_MAX_TOKENS = 1 << 22,
    VOCABULARY_MODEL = 1,   /* flag: merging may give this token */
    VOCABULARY_SPECIAL = 2, /* flag: left out of decoded text on request */
};

/* One place of the table from texts to ids. */
struct vocabulary_slot {
    uint32_t hash;
    uint32_t record; /* offset of the token's record in texts, 0 = empty */
};

struct vocabulary {
    char *texts; /* records: struct vocabulary_record, text, NUL */
    size_t texts_length;
    size_t texts_capacity;
    uint32_t *records; /* [n_ids] offset in texts, 0 where an id is not in use */
    uint8_t *flags;    /* [n_ids] */
    size_t n_ids;      /* one more than the highest id */
    size_t ids_capacity;
    size_t n_tokens;               /* ids in use */
    uint32_t max_length;           /* of any token, in bytes */
    struct vocabulary_slot *slots; /* [n_slots], a power of two, at most half full */
    size_t n_slots;
};

void vocabulary_deinit(struct vocabulary *vocabulary); /* takes a zeroed one */

/* Adds a token; *vocabulary starts zeroed. An empty text, an id or text that is there
 * already and an id beyond VOCABULARY_MAX_TOKENS are errors. */
MUST_USE bool vocabulary_add(struct vocabulary *vocabulary, int64_t id,
                             const char *text, size_t length, uint8_t flags,
                             struct error *err);

/* The id of this text, or -1. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text,
                        size_t length);

/* The same among the tokens with VOCABULARY_MODEL. */
int32_t vocabulary_find_model(const struct vocabulary *vocabulary, const char *text,
                              size_t length);

/* Text of an id and its length; NULL where the id is not in use. */
const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id,
                            size_t *length);

/* The id of the byte token "<0xHH>", or -1. */
int32_t vocabulary_find_byte(const struct vocabulary *vocabulary, uint8_t byte);

/* Whether text is "<0xHH>"; *byte is its value then. */
bool vocabulary_is_byte(const char *text, size_t length, uint8_t *byte);

#endif
