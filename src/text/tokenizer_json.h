/*
 * tokenizer_json - what the readers of the parts of tokenizer.json share; only for
 * them.
 *
 * The file is walked once for the places of its parts; each part is then read by its
 * own reader: the big ones (vocabulary, merges) by json_scan, the small ones as trees.
 */
#ifndef TEXT_TOKENIZER_JSON_H
#define TEXT_TOKENIZER_JSON_H

#include <jansson.h>

#include "base/base.h"
#include "text/json_scan.h"

struct error;
struct tokenizer;

/* One reading: what is filled, from which text, and where a fault is told. */
struct tokenizer_json {
    struct tokenizer *tokenizer;
    const struct json_scan *scan; /* of the whole file */
    struct error *err;
};

/* Sets "FILE: WHAT "NAME" is not supported" or "FILE: PART: expected EXPECTED". Both
 * return false. */
bool tokenizer_json_refuse(struct tokenizer_json *reading, const char *what,
                           const char *name);
bool tokenizer_json_expect(struct tokenizer_json *reading, const char *part,
                           const char *expected);

/* The value at this extent as a tree, or NULL; an absent one (to is 0) gives JSON null.
 * Release with json_decref. */
MUST_USE json_t *tokenizer_json_tree(struct tokenizer_json *reading,
                                     struct json_scan_extent extent);

/* A member that is there and a string, or NULL. */
const char *tokenizer_json_text(const json_t *object, const char *key);

/* Passes over an object's members and notes where those of names[n_names] are. Others
 * are errors when `part` says what they would be, else passed over. */
MUST_USE bool tokenizer_json_members(struct tokenizer_json *reading,
                                     struct json_scan *scan, const char *const *names,
                                     int n_names, const char *part,
                                     struct json_scan_extent *extents);

/* tokenizer_json_stages.c: the parts before and after merging, none of them JSON null
 * but the decoder perhaps. */
MUST_USE bool tokenizer_json_normalizer(struct tokenizer_json *reading,
                                        const json_t *part);
MUST_USE bool tokenizer_json_pre_tokenizer(struct tokenizer_json *reading,
                                           const json_t *part);
MUST_USE bool tokenizer_json_post_processor(struct tokenizer_json *reading,
                                            const json_t *part);
MUST_USE bool tokenizer_json_decoder(struct tokenizer_json *reading,
                                     const json_t *part);

/* tokenizer_json_model.c: vocabulary and merges; then, on top, the added tokens. */
MUST_USE bool tokenizer_json_model(struct tokenizer_json *reading,
                                   struct json_scan_extent extent);
MUST_USE bool tokenizer_json_added(struct tokenizer_json *reading, const json_t *list);

#endif
