/*
 * json_write - JSON text written piece by piece, for what is too large for a tree or has to
 * look as other programs write it: two spaces a level, one item a line.
 *
 *     struct str text = {0};
 *     struct json_write json = {.out = &text};
 *     json_write_begin(&json, NULL, '{');
 *     json_write_integer(&json, "step", 3);
 *     json_write_begin(&json, "names", '[');
 *     json_write_text(&json, NULL, "a", 1);
 *     json_write_end(&json);
 *     json_write_end(&json);
 *
 * `key` is the member's name in an object and NULL in an array, for the outermost value,
 * and behind json_write_key.
 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include "base/base.h"

struct str;

enum { JSON_WRITE_MAX_DEPTH = 16 };

struct json_write {
    struct str *out;                    /* borrowed; text is appended */
    int depth;                          /* brackets that are open */
    char closing[JSON_WRITE_MAX_DEPTH]; /* [depth] what ends each */
    bool has_items;                     /* in the innermost bracket */
    bool has_key;                       /* a name stands there and wants its value */
};

/* Opens an object ('{') or an array ('['); json_write_end closes the innermost one. */
void json_write_begin(struct json_write *json, const char *key, char bracket);
void json_write_end(struct json_write *json);

/* A name of any bytes; its value follows with key NULL. */
void json_write_key(struct json_write *json, const char *name, size_t length);

/* Values. Text is UTF-8 and may hold NUL; numbers that are not finite become null. */
void json_write_text(struct json_write *json, const char *key, const char *text,
                     size_t length);
void json_write_string(struct json_write *json, const char *key, const char *text);
void json_write_integer(struct json_write *json, const char *key, int64_t value);
void json_write_number(struct json_write *json, const char *key, double value,
                       int digits);
void json_write_bool(struct json_write *json, const char *key, bool value);
void json_write_null(struct json_write *json, const char *key);

/* A value that is JSON already. */
void json_write_raw(struct json_write *json, const char *key, const char *value);

#endif
