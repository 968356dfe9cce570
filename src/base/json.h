/*
 * json - bounded reading of JSON text, over jansson.
 *
 * Getters name the file and key and say what was expected: one line a user can act on.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

struct error;

/* Parses text[0 .. length); `where` (file, or file:line) is for messages. Duplicate
 * keys, depth over 100 and trailing bytes are errors. Release with json_decref. */
MUST_USE json_t *json_parse(const char *text, size_t length, const char *where,
                            struct error *err);
MUST_USE json_t *json_read_file(const char *path, size_t max_bytes, struct error *err);

/* A string of any bytes: what is no UTF-8 becomes U+FFFD, NUL stays. Never NULL. */
MUST_USE json_t *json_text(const char *text, size_t length);

/* The object gets a member; takes the value over. Both have to be there, and the key is
 * one of the program's own. */
void json_put(json_t *object, const char *key, json_t *owned_value);

/* The value as text, freed with free(); the flags are jansson's. Never NULL. */
MUST_USE char *json_print(const json_t *value, size_t flags);

/*
 * json_need_x(object, key, where, ...): the member `key`, which has to be there and of
 * that kind; what is returned is borrowed from the object. An integer also has to be
 * within [min, max]; a number may be an integer.
 */
MUST_USE json_t *json_need_object(const json_t *object, const char *key,
                                  const char *where, struct error *err);
MUST_USE json_t *json_need_array(const json_t *object, const char *key,
                                 const char *where, struct error *err);
MUST_USE const char *json_need_string(const json_t *object, const char *key,
                                      const char *where, struct error *err);
MUST_USE bool json_need_integer(const json_t *object, const char *key,
                                const char *where, int64_t min, int64_t max,
                                int64_t *number, struct error *err);
MUST_USE bool json_need_number(const json_t *object, const char *key, const char *where,
                               double *number, struct error *err);
MUST_USE bool json_need_bool(const json_t *object, const char *key, const char *where,
                             bool *truth, struct error *err);

#endif
