/*
 * json - JSON text with bounds that jansson does not have, and named getters.
 */
#include "base/json.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum { DEPTH_LIMIT = 100 };

/* jansson tells a lack of memory as a fault of the text, "invalid token", and a row would
 * be blamed that is in order. So its memory is small host memory: running out ends the
 * process. */
static void *allocate(size_t bytes)
{
    void *pointer = malloc(bytes);
    if (pointer == NULL) {
        mem_exhausted(bytes);
    }
    return pointer;
}

/* Values made before or by others are freed all the same: it is malloc's memory either
 * way. An allocator that the program has chosen stays. */
static void set_allocator(void)
{
    json_malloc_t allocates = NULL;
    json_free_t frees = NULL;
    json_get_alloc_funcs(&allocates, &frees);
    if (allocates == malloc && frees == free) {
        json_set_alloc_funcs(allocate, free);
    }
}

/*
 * jansson's own limit is 2048 calls deep. Counted before parsing, outside of strings.
 */
static bool is_too_deep(const char *text, size_t length)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH_LIMIT) {
                return true;
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return false;
}

/* Duplicates are refused: which of two equal keys counts is not defined, and in a
 * settings file it is always a mistake. */
json_t *json_parse(const char *text, size_t length, const char *where,
                   struct error *err)
{
    if (is_too_deep(text, length)) {
        error_set(err, ERROR_DATA, "%s: JSON is nested deeper than %d levels", where,
                  DEPTH_LIMIT);
        return NULL;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_allocator);
    json_error_t fault;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &fault);
    if (value == NULL) {
        /* jansson says column 0 behind a line end and in an empty text. */
        const int column = fault.column > 0 ? fault.column : 1;
        error_set(err, ERROR_DATA, "%s: not valid JSON: line %d, column %d: %s", where,
                  fault.line, column, fault.text);
    }
    return value;
}

/* The text is freed before return: jansson keeps its own copies. */
json_t *json_read_file(const char *path, size_t max_bytes, struct error *err)
{
    size_t length;
    char *text = file_read(path, max_bytes, &length, err);
    if (text == NULL) {
        return NULL;
    }
    json_t *value = json_parse(text, length, path, err);
    mem_free(text);
    return value;
}

/* jansson refuses a text with a byte that is no UTF-8 and gives no value; one mark for each
 * such byte, as Python's errors="replace" and others do. */
json_t *json_text(const char *text, size_t length)
{
    struct str valid = {0};
    for (size_t at = 0; at < length;) {
        const int n = str_utf8_length(text + at, length - at);
        str_add_bytes(&valid, n > 0 ? text + at : "\xEF\xBF\xBD",
                      n > 0 ? (size_t)n : 3);
        at += n > 0 ? (size_t)n : 1;
    }
    json_t *string = json_stringn(str_text(&valid), valid.length);
    ASSERT(string != NULL);
    str_deinit(&valid);
    return string;
}

/* A member that is missing would not be seen here but by who reads the file. */
void json_put(json_t *object, const char *key, json_t *owned_value)
{
    const int rc = json_object_set_new(object, key, owned_value);
    ASSERT(rc == 0);
}

/* Fails for a lack of memory and for values that are none, which json_put keeps out. */
char *json_print(const json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags);
    ASSERT(text != NULL);
    return text;
}

/* With its article, for "is %s, expected %s". */
static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    UNREACHABLE();
}

/* Says what is wrong with `value`, found under `key`; NULL = not there. */
static void complain(const json_t *value, const char *key, const char *where,
                     const char *expected, struct error *err)
{
    if (value == NULL) {
        error_set(err, ERROR_DATA, "%s: \"%s\" is missing (expected %s)", where, key,
                  expected);
    } else {
        error_set(err, ERROR_DATA, "%s: \"%s\" is %s, expected %s", where, key,
                  type_name(value), expected);
    }
}

json_t *json_need_object(const json_t *object, const char *key, const char *where,
                         struct error *err)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_object(value)) {
        complain(value, key, where, "an object", err);
        return NULL;
    }
    return value;
}

json_t *json_need_array(const json_t *object, const char *key, const char *where,
                        struct error *err)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_array(value)) {
        complain(value, key, where, "an array", err);
        return NULL;
    }
    return value;
}

/* A zero byte inside would cut the string for everyone who takes it as a C string. */
const char *json_need_string(const json_t *object, const char *key, const char *where,
                             struct error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) {
        complain(value, key, where, "a string", err);
        return NULL;
    }
    if (strlen(json_string_value(value)) != json_string_length(value)) {
        error_set(err, ERROR_DATA, "%s: \"%s\" holds a zero byte", where, key);
        return NULL;
    }
    return json_string_value(value);
}

/* 1.0 is not an integer here: jansson tells the two apart by how they are written. */
bool json_need_integer(const json_t *object, const char *key, const char *where,
                       int64_t min, int64_t max, int64_t *number, struct error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        complain(value, key, where, "an integer", err);
        return false;
    }
    const int64_t found = json_integer_value(value);
    if (found < min || found > max) {
        return error_set(err, ERROR_DATA, "%s: \"%s\" is %lld, expected %lld to %lld",
                         where, key, (long long)found, (long long)min, (long long)max);
    }
    *number = found;
    return true;
}

bool json_need_number(const json_t *object, const char *key, const char *where,
                      double *number, struct error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) {
        complain(value, key, where, "a number", err);
        return false;
    }
    *number = json_number_value(value);
    return true;
}

bool json_need_bool(const json_t *object, const char *key, const char *where,
                    bool *truth, struct error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value)) {
        complain(value, key, where, "true or false", err);
        return false;
    }
    *truth = json_is_true(value);
    return true;
}
