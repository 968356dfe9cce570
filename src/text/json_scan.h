/*
 * json_scan - walks a big JSON text value by value, building nothing.
 *
 * A tokenizer.json holds a million strings in 33 MB; a tree of them takes seconds and a
 * gigabyte. This reader hands them over one at a time; small parts go to json_parse.
 *
 *     struct json_scan scan = json_scan_view(text, length, "tokenizer.json");
 *     bool has_more;
 *     if (!json_scan_open(&scan, '{', err)) return false;
 *     for (;;) {
 *         if (!json_scan_next(&scan, '}', &has_more, err)) return false;
 *         if (!has_more) break;
 *         if (!json_scan_key(&scan, &key, err)) return false;
 *         if (!json_scan_skip(&scan, &value, err)) return false;
 *     }
 *
 * Errors name file, line and column.
 */
#ifndef TEXT_JSON_SCAN_H
#define TEXT_JSON_SCAN_H

#include "base/base.h"

struct error;
struct str;

enum { JSON_SCAN_MAX_DEPTH = 100 };

struct json_scan {
    const char *text; /* borrowed */
    size_t length;
    size_t position;
    const char *where; /* borrowed */
    bool is_first;     /* nothing of the open array or object was read yet */
};

/* A value that was passed over: bytes [from, to) of the text. */
struct json_scan_extent {
    size_t from;
    size_t to;
};

struct json_scan json_scan_view(const char *text, size_t length, const char *where);

/* A reader of just that value, whose errors still count lines from the start. */
struct json_scan json_scan_within(const struct json_scan *scan,
                                  struct json_scan_extent extent);

/* The first character of the next token, 0 at the end; nothing is consumed. */
char json_scan_peek(struct json_scan *scan);

/* Consumes '{' or '['. */
MUST_USE bool json_scan_open(struct json_scan *scan, char open, struct error *err);

/* Consumes a comma where one is due, or the closing '}' or ']', and says which. After a
 * nested value was read the walk of the outer one goes on. */
MUST_USE bool json_scan_next(struct json_scan *scan, char close, bool *has_more,
                             struct error *err);

/* A string, unescaped, into *out (cleared first); _key also takes the colon. A NUL
 * inside is allowed: out->length tells. */
MUST_USE bool json_scan_string(struct json_scan *scan, struct str *out,
                               struct error *err);
MUST_USE bool json_scan_key(struct json_scan *scan, struct str *out, struct error *err);

MUST_USE bool json_scan_integer(struct json_scan *scan, int64_t *value,
                                struct error *err);

/* Passes over one value of any kind. */
MUST_USE bool json_scan_skip(struct json_scan *scan, struct json_scan_extent *extent,
                             struct error *err);

/* Nothing but white space follows. */
MUST_USE bool json_scan_end(struct json_scan *scan, struct error *err);

/* Sets an error at the current place: "WHERE:LINE:COLUMN: MESSAGE". Returns false. */
PRINTF_LIKE(3, 4)
bool json_scan_fail(const struct json_scan *scan, struct error *err, const char *format,
                    ...);

#endif
