/*
 * json_scan - a position in a bounded text; every step checks before it moves.
 */
#include "text/json_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

/* Nothing is looked at yet: the first call that reads finds the faults. */
struct json_scan json_scan_view(const char *text, size_t length, const char *where)
{
    return (struct json_scan){
        .text = text, .length = length, .where = where, .is_first = true};
}

/* Cut at the end of the value but not at its start: positions stay those of the
 * file. */
struct json_scan json_scan_within(const struct json_scan *scan,
                                  struct json_scan_extent extent)
{
    ASSERT(extent.from <= extent.to && extent.to <= scan->length);
    struct json_scan inner = *scan;
    inner.position = extent.from;
    inner.length = extent.to;
    inner.is_first = true;
    return inner;
}

/* Lines are counted only now: no walk pays for messages it does not need. */
bool json_scan_fail(const struct json_scan *scan, struct error *err, const char *format,
                    ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    size_t line = 1;
    size_t line_from = 0;
    for (size_t i = 0; i < scan->position; i++) {
        if (scan->text[i] == '\n') {
            line++;
            line_from = i + 1;
        }
    }
    return error_set(err, ERROR_DATA, "%s:%zu:%zu: %s", scan->where, line,
                     scan->position - line_from + 1, message);
}

/* Passes over white space only. A NUL byte inside the text looks like its end here;
 * json_scan_end tells the two apart by the position. */
char json_scan_peek(struct json_scan *scan)
{
    while (scan->position < scan->length) {
        const char c = scan->text[scan->position];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
            return c;
        }
        scan->position++;
    }
    return '\0';
}

/* Consumes this character. A fault leaves the position in front of what was found
 * instead, which is the place that the message should name. */
static bool expect(struct json_scan *scan, char c, struct error *err)
{
    if (json_scan_peek(scan) != c) {
        return json_scan_fail(scan, err, "expected '%c'", c);
    }
    scan->position++;
    return true;
}

/* The flag is one for all levels: an inner walk clears it, which is right for the outer
 * one too, as that has then read a value. */
bool json_scan_open(struct json_scan *scan, char open, struct error *err)
{
    scan->is_first = true;
    return expect(scan, open, err);
}

/* Besides the comma this checks that a value follows: "[1,]" and "[,1]" fail here. */
bool json_scan_next(struct json_scan *scan, char close, bool *has_more,
                    struct error *err)
{
    const bool is_first = scan->is_first;
    scan->is_first = false;
    *has_more = false;
    const char c = json_scan_peek(scan);
    if (c == close) {
        scan->position++;
        return true;
    }
    if (!is_first && !expect(scan, ',', err)) {
        return error_wrap(err, "expected '%c' or a comma", close);
    }
    const char next = json_scan_peek(scan);
    if (next == '\0' || next == '}' || next == ']' || next == ',') {
        return json_scan_fail(scan, err, "expected a value");
    }
    *has_more = true;
    return true;
}

/* --- strings ---------------------------------------------------------------------- */

/* Four hex digits. Not strtoul: that takes signs, spaces and "0x". */
static bool hex4(struct json_scan *scan, uint32_t *value, struct error *err)
{
    *value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = scan->position < scan->length ? scan->text[scan->position] : 0;
        const int digit = str_hex_digit(c);
        if (digit < 0) {
            return json_scan_fail(scan, err, "expected four hex digits after \\u");
        }
        *value = *value * 16 + (uint32_t)digit;
        scan->position++;
    }
    return true;
}

/* Appends a code point as UTF-8. */
static void add_code_point(struct str *out, uint32_t code)
{
    char bytes[4];
    size_t n = 0;
    if (code < 0x80) {
        bytes[n++] = (char)code;
    } else if (code < 0x800) {
        bytes[n++] = (char)(0xc0 | code >> 6);
        bytes[n++] = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        bytes[n++] = (char)(0xe0 | code >> 12);
        bytes[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (code & 0x3f));
    } else {
        bytes[n++] = (char)(0xf0 | code >> 18);
        bytes[n++] = (char)(0x80 | (code >> 12 & 0x3f));
        bytes[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (code & 0x3f));
    }
    str_add_bytes(out, bytes, n);
}

/* \uXXXX, and a second one where the first is the high half of a pair. code = 0x10000 +
 * (high - 0xd800) * 1024 + (low - 0xdc00). A half without its partner stands for no
 * character and has no UTF-8 form, so it is refused rather than replaced. */
static bool unicode_escape(struct json_scan *scan, struct str *out, struct error *err)
{
    uint32_t code;
    if (!hex4(scan, &code, err)) {
        return false;
    }
    /* A high half must be followed by a low one, written as an escape too. */
    if (code >= 0xd800 && code < 0xdc00) {
        uint32_t low = 0;
        const bool has_low = scan->length - scan->position >= 2 &&
                             memcmp(scan->text + scan->position, "\\u", 2) == 0;
        if (has_low) {
            scan->position += 2;
            if (!hex4(scan, &low, err)) {
                return false;
            }
        }
        if (low < 0xdc00 || low > 0xdfff) {
            return json_scan_fail(scan, err, "half of a surrogate pair");
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return json_scan_fail(scan, err, "half of a surrogate pair");
    }
    add_code_point(out, code);
    return true;
}

/* What follows a backslash. names[i] stands for values[i]. strchr would find the NUL
 * that ends the list, hence the look at c first. */
static bool escape(struct json_scan *scan, struct str *out, struct error *err)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char c = scan->position < scan->length ? scan->text[scan->position] : 0;
    scan->position++;
    if (c == 'u') {
        return unicode_escape(scan, out, err);
    }
    const char *name = c == '\0' ? NULL : strchr(names, c);
    if (name == NULL) {
        scan->position--;
        return json_scan_fail(scan, err, "unknown escape in a string");
    }
    str_add_char(out, values[name - names]);
    return true;
}

/* End of the run of plain, valid characters that begins at `at`. Broken UTF-8 is a
 * fault of the file: token texts are compared byte by byte, and a replaced byte would
 * silently be another token. */
static bool plain_run(struct json_scan *scan, size_t at, size_t *end, struct error *err)
{
    while (at < scan->length) {
        const unsigned char c = (unsigned char)scan->text[at];
        if (c == '"' || c == '\\') {
            break;
        }
        const int n =
            c < 0x80 ? 1 : str_utf8_length(scan->text + at, scan->length - at);
        if (n == 0 || c < 0x20) {
            scan->position = at;
            return json_scan_fail(scan, err,
                                  n == 0 ? "a string is not valid UTF-8"
                                         : "a control character inside a string");
        }
        at += (size_t)n;
    }
    *end = at;
    return true;
}

/* Runs of plain characters are copied as they are, escapes one by one. The fault "does
 * not end" is told at the end of the text, as nobody can know where the quote was meant
 * to be. */
bool json_scan_string(struct json_scan *scan, struct str *out, struct error *err)
{
    str_clear(out);
    if (json_scan_peek(scan) != '"') {
        return json_scan_fail(scan, err, "expected a string");
    }
    scan->position++;
    for (;;) {
        size_t end = scan->position;
        if (!plain_run(scan, scan->position, &end, err)) {
            return false;
        }
        str_add_bytes(out, scan->text + scan->position, end - scan->position);
        scan->position = end;
        if (end == scan->length) {
            return json_scan_fail(scan, err, "a string does not end");
        }
        scan->position++;
        if (scan->text[end] == '"') {
            return true;
        }
        if (!escape(scan, out, err)) {
            return false;
        }
    }
}

bool json_scan_key(struct json_scan *scan, struct str *out, struct error *err)
{
    return json_scan_string(scan, out, err) && expect(scan, ':', err);
}

/* At most 18 digits, so that no value overflows. Fractions and exponents are refused
 * even where the value is whole: ids are never written that way. Leading zeros pass. */
bool json_scan_integer(struct json_scan *scan, int64_t *value, struct error *err)
{
    bool is_negative = json_scan_peek(scan) == '-';
    if (is_negative) {
        scan->position++;
    }
    const size_t from = scan->position;
    int64_t magnitude = 0;
    while (scan->position < scan->length && scan->position - from < 18) {
        const char c = scan->text[scan->position];
        if (c < '0' || c > '9') {
            break;
        }
        magnitude = magnitude * 10 + (c - '0');
        scan->position++;
    }
    /* A 19th digit, a fraction or an exponent stands right behind what was read. */
    const char after =
        scan->position < scan->length ? scan->text[scan->position] : '\0';
    if (scan->position == from || after == '.' || after == 'e' || after == 'E' ||
        (after >= '0' && after <= '9')) {
        return json_scan_fail(scan, err, "expected an integer");
    }
    *value = is_negative ? -magnitude : magnitude;
    return true;
}

/* --- passing over ----------------------------------------------------------------- */

/* Passes over a string without looking into it; it is checked when it is read. An
 * escape is a backslash and one more byte; the digits of \u need no care, as none of
 * them is a quote. */
static bool skip_string(struct json_scan *scan, struct error *err)
{
    for (size_t i = scan->position + 1; i < scan->length; i++) {
        if (scan->text[i] == '\\') {
            i++;
        } else if (scan->text[i] == '"') {
            scan->position = i + 1;
            return true;
        }
    }
    return json_scan_fail(scan, err, "a string does not end");
}

/* A number, true, false or null: it is looked at where it is read. A NUL ends it as
 * well, since strchr finds the one behind the list; the caller then sees the end of the
 * text. */
static void skip_plain(struct json_scan *scan)
{
    while (scan->position < scan->length &&
           strchr(",]} \n\r\t", scan->text[scan->position]) == NULL) {
        scan->position++;
    }
}

/* Keeps count of brackets only; what lies inside is checked when it is read. A loop
 * with a counter, not recursion: the depth of a file must not decide over the depth of
 * the stack. The limit keeps it to what json_parse takes as well. */
bool json_scan_skip(struct json_scan *scan, struct json_scan_extent *extent,
                    struct error *err)
{
    int depth = 0;
    const char first = json_scan_peek(scan);
    extent->from = scan->position;
    if (first == '\0' || strchr(",]}:", first) != NULL) {
        return json_scan_fail(scan, err, "expected a value");
    }
    do {
        const char c = json_scan_peek(scan);
        if (c == '\0') {
            return json_scan_fail(scan, err, "the text ends inside a value");
        }
        if (c == '"') {
            if (!skip_string(scan, err)) {
                return false;
            }
        } else if (c == '{' || c == '[') {
            scan->position++;
            if (++depth > JSON_SCAN_MAX_DEPTH) {
                return json_scan_fail(scan, err, "nested deeper than %d levels",
                                      JSON_SCAN_MAX_DEPTH);
            }
        } else if (c == '}' || c == ']') {
            scan->position++;
            depth--;
        } else if (c == ',' || c == ':') {
            scan->position++;
        } else {
            skip_plain(scan);
        }
    } while (depth > 0);
    extent->to = scan->position;
    return true;
}

bool json_scan_end(struct json_scan *scan, struct error *err)
{
    return json_scan_peek(scan) == '\0' && scan->position == scan->length
               ? true
               : json_scan_fail(scan, err, "text after the end of the value");
}
