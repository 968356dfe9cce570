/*
 * str - growing strings, patterns, edit distance, UTF-8.
 */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void str_deinit(struct str *s)
{
    mem_free(s->text);
    *s = (struct str){0};
}

void str_clear(struct str *s)
{
    s->length = 0;
    if (s->text != NULL) {
        s->text[0] = '\0';
    }
}

/* Makes room for `more` bytes and the NUL. Doubling, or what is needed if that is more.
 * `kept` includes the NUL, which makes the text valid at any moment. */
static void reserve(struct str *s, size_t more)
{
    ASSERT(more < PTRDIFF_MAX - s->length);
    const size_t needed = s->length + more + 1;
    if (needed <= s->capacity) {
        return;
    }
    size_t capacity = s->capacity < 32 ? 64 : s->capacity * 2;
    if (capacity < needed) {
        capacity = needed;
    }
    const size_t kept = s->text == NULL ? 0 : s->length + 1;
    s->text = mem_grow_array(s->text, kept, capacity, 1);
    s->capacity = capacity;
}

void str_add(struct str *s, const char *text)
{
    str_add_bytes(s, text, strlen(text));
}

/* memcpy is not called for 0 bytes, because `bytes` may then be NULL. */
void str_add_bytes(struct str *s, const void *bytes, size_t length)
{
    reserve(s, length);
    if (length > 0) {
        memcpy(s->text + s->length, bytes, length);
    }
    s->length += length;
    s->text[s->length] = '\0';
}

void str_add_char(struct str *s, char c)
{
    str_add_bytes(s, &c, 1);
}

/* Formatted twice, so that the second time it goes right to its place. */
void str_printf(struct str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(length >= 0);
    reserve(s, (size_t)length);
    vsnprintf(s->text + s->length, (size_t)length + 1, format, again);
    va_end(again);
    s->length += (size_t)length;
}

const char *str_text(const struct str *s)
{
    return s->text == NULL ? "" : s->text;
}

bool str_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends_with(const char *text, const char *suffix)
{
    const size_t text_length = strlen(text);
    const size_t suffix_length = strlen(suffix);
    return suffix_length <= text_length &&
           memcmp(text + text_length - suffix_length, suffix, suffix_length) == 0;
}

/*
 * Greedy with one point of return: a '*' matches nothing at first and one byte more
 * each time what follows does not fit. Only the last '*' ever needs that, so no
 * recursion.
 */
bool str_matches(const char *pattern, const char *text)
{
    const char *star = NULL;      /* the last '*' seen */
    const char *star_text = NULL; /* where its run ends, for now */
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            star_text = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static int min_of_3(int a, int b, int c)
{
    const int smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/*
 * Optimal string alignment: row i of the table holds the distances from a[0..i) to
 * every b[0..j); three rows are kept, the third for swapped neighbours.
 */
int str_distance(const char *a, const char *b)
{
    const size_t n = strlen(a);
    const size_t m = strlen(b);
    int *rows = mem_alloc_array(3 * (m + 1), sizeof(*rows));
    int *before = rows; /* row i - 2 */
    int *above = rows + (m + 1);
    int *row = rows + 2 * (m + 1);
    for (size_t j = 0; j <= m; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= n; i++) {
        int *recycled = before;
        before = above;
        above = row;
        row = recycled;
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            const int replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = min_of_3(above[j] + 1, row[j - 1] + 1, replace);
            const bool swapped =
                i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
    }
    const int distance = row[m];
    mem_free(rows);
    return distance;
}

const char *str_nearest(const char *text, const char *const *candidates, size_t n)
{
    /* A third of the letters may be wrong; more is another word. */
    const int limit = 1 + (int)(strlen(text) / 3);
    int best_distance = limit + 1;
    const char *best = NULL;
    for (size_t i = 0; i < n; i++) {
        const int distance = str_distance(text, candidates[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidates[i];
        }
    }
    return best;
}

/* Regular plurals only: rows, steps, tokens. */
const char *str_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

const char *str_format_bytes(char buffer[24], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024.0 && unit + 1 < ARRAY_LENGTH(units)) {
        bytes /= 1024.0;
        unit++;
    }
    const int decimals = unit == 0 || bytes >= 100.0 ? 0 : 1;
    snprintf(buffer, 24, "%.*f %s", decimals, bytes, units[unit]);
    return buffer;
}

/* Table 3-7 of the Unicode standard: the second byte has a narrower range after E0, ED,
 * F0 and F4 (no overlong forms, no surrogates, nothing over U+10FFFF). */
int str_utf8_length(const char *text, size_t length)
{
    if (length == 0) {
        return 0;
    }
    const unsigned char *bytes = (const unsigned char *)text;
    const unsigned first = bytes[0];
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xC2 || first > 0xF4) {
        return 0;
    }
    const int needed = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (length < (size_t)needed) {
        return 0;
    }
    const unsigned lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (bytes[1] < lowest || bytes[1] > highest) {
        return 0;
    }
    for (int i = 2; i < needed; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return needed;
}

/* By comparing: isxdigit and its kin depend on the locale. */
int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return -1;
}
