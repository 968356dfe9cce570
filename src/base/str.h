/*
 * str - a growing string, and small questions about text.
 *
 *     struct str s = {0};
 *     str_printf(&s, "%d rows", n);
 *     puts(s.text);
 *     str_deinit(&s);
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/base.h"

struct str {
    char *text;      /* always NUL-terminated once anything was added; NULL before */
    size_t length;   /* bytes, without the NUL */
    size_t capacity; /* bytes allocated, the NUL included; 0 = none */
};

/* A zeroed struct is an empty string. All of them append; none fails (mem_alloc ends
 * the process). */
void str_deinit(struct str *s);
void str_clear(struct str *s); /* keeps the memory */
void str_add(struct str *s, const char *text);
void str_add_bytes(struct str *s, const void *bytes, size_t length);
void str_add_char(struct str *s, char c);
PRINTF_LIKE(2, 3) void str_printf(struct str *s, const char *format, ...);

/* The text, "" when nothing was added. */
const char *str_text(const struct str *s);

bool str_starts_with(const char *text, const char *prefix);
bool str_ends_with(const char *text, const char *suffix);

/* Shell-like pattern over the whole text: '*' any run, '?' any one byte. */
bool str_matches(const char *pattern, const char *text);

/* Edits (insert, delete, replace, swap neighbours) that turn a into b. */
int str_distance(const char *a, const char *b);

/* The candidate nearest to `text`, or NULL when none is near enough to suggest. */
const char *str_nearest(const char *text, const char *const *candidates, size_t n);

/* What makes a plural: "s", but "" for 1. */
const char *str_plural(int64_t n);

/* "1.5 GiB", "640 B": for people; the buffer is the caller's. Returns `buffer`. */
const char *str_format_bytes(char buffer[24], double bytes);

/* Length of valid UTF-8 at text[0 .. length), 1 to 4, or 0 where it is broken. */
int str_utf8_length(const char *text, size_t length);

/* Value of a hex digit of either case, or -1. */
int str_hex_digit(char c);

#endif
