/*
 * json_write - see the header. Escapes are those of serde_json, which writes the files of
 * the Hugging Face libraries: a file made here can be compared with theirs as bytes.
 */
#include "base/json_write.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

/* Only what JSON demands is escaped; runs of other bytes go out at once. */
static void add_quoted(struct str *out, const char *text, size_t length)
{
    static const char named[] = "\b\t\n\f\r\"\\";
    static const char letters[] = "btnfr\"\\";
    size_t kept = 0;
    str_add_char(out, '"');
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        const char *name = c == 0 ? NULL : strchr(named, c);
        if (c >= 0x20 && name == NULL) {
            continue;
        }
        str_add_bytes(out, text + kept, i - kept);
        kept = i + 1;
        if (name != NULL) {
            str_add_char(out, '\\');
            str_add_char(out, letters[name - named]);
        } else {
            str_printf(out, "\\u%04x", c);
        }
    }
    str_add_bytes(out, text + kept, length - kept);
    str_add_char(out, '"');
}

/* A new line at the depth of the innermost bracket. */
static void add_line(struct json_write *json)
{
    static const char spaces[2 * JSON_WRITE_MAX_DEPTH + 1] =
        "                                ";
    str_add_char(json->out, '\n');
    str_add_bytes(json->out, spaces, 2 * (size_t)json->depth);
}

/* What stands before a value: comma and line end, then the name. */
static void begin_item(struct json_write *json, const char *key)
{
    if (json->has_key) {
        ASSERT(key == NULL);
        json->has_key = false;
        return;
    }
    if (key != NULL) {
        json_write_key(json, key, strlen(key));
        json->has_key = false;
        return;
    }
    if (json->depth > 0) {
        if (json->has_items) {
            str_add_char(json->out, ',');
        }
        add_line(json);
    }
    json->has_items = true;
}

/* The name takes the comma and the line of its value. */
void json_write_key(struct json_write *json, const char *name, size_t length)
{
    ASSERT(!json->has_key && json->depth > 0);
    begin_item(json, NULL);
    add_quoted(json->out, name, length);
    str_add(json->out, ": ");
    json->has_key = true;
}

void json_write_begin(struct json_write *json, const char *key, char bracket)
{
    ASSERT(json->depth < JSON_WRITE_MAX_DEPTH && (bracket == '{' || bracket == '['));
    begin_item(json, key);
    str_add_char(json->out, bracket);
    json->closing[json->depth++] = bracket == '{' ? '}' : ']';
    json->has_items = false;
}

/* An empty bracket closes on its own line. What has been closed is an item of the one
 * around it, so that one has items now. */
void json_write_end(struct json_write *json)
{
    ASSERT(json->depth > 0 && !json->has_key);
    json->depth--;
    if (json->has_items) {
        add_line(json);
    }
    str_add_char(json->out, json->closing[json->depth]);
    json->has_items = true;
}

void json_write_text(struct json_write *json, const char *key, const char *text,
                     size_t length)
{
    begin_item(json, key);
    add_quoted(json->out, text, length);
}

void json_write_string(struct json_write *json, const char *key, const char *text)
{
    json_write_text(json, key, text, strlen(text));
}

void json_write_integer(struct json_write *json, const char *key, int64_t value)
{
    begin_item(json, key);
    str_printf(json->out, "%lld", (long long)value);
}

/* JSON has neither infinity nor NaN. */
void json_write_number(struct json_write *json, const char *key, double value,
                       int digits)
{
    begin_item(json, key);
    if (isfinite(value)) {
        str_printf(json->out, "%.*g", digits, value);
    } else {
        str_add(json->out, "null");
    }
}

void json_write_bool(struct json_write *json, const char *key, bool value)
{
    json_write_raw(json, key, value ? "true" : "false");
}

void json_write_null(struct json_write *json, const char *key)
{
    json_write_raw(json, key, "null");
}

/* Taken as it is: the caller knows that it is one value. */
void json_write_raw(struct json_write *json, const char *key, const char *value)
{
    begin_item(json, key);
    str_add(json->out, value);
}
