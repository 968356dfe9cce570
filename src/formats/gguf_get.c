/*
 * gguf_get - what is in an open GGUF file: tensors by name, typed metadata by key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/gguf_parts.h"

/* In the order of enum gguf_value_type. */
static const char *const type_names[GGUF_VALUE_TYPE_COUNT] = {
    "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
    "bool", "string", "array", "u64", "i64", "f64",
};

/* In the order of the file; gguf_tensor_at walks them. */
size_t gguf_n_tensors(const struct gguf *file)
{
    return file->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *file, size_t i)
{
    ASSERT(i < file->n_tensors);
    return &file->tensors[i];
}

/* The arrays hold pointers, so the key of the search is a pointer to a stand-in with
 * only a name. */
const struct gguf_tensor *gguf_find(const struct gguf *file, const char *name)
{
    const struct gguf_tensor wanted = {.name = name};
    const struct gguf_tensor *key = &wanted;
    const struct gguf_tensor *const *found =
        bsearch(&key, file->by_name, file->n_tensors, sizeof(file->by_name[0]),
                gguf_compare_names);
    return found != NULL ? *found : NULL;
}

/* Borrowed bytes are not a map and are left alone. */
void gguf_drop(const struct gguf *file, const struct gguf_tensor *tensor, size_t offset,
               size_t length)
{
    ASSERT(offset <= tensor->n_bytes && length <= tensor->n_bytes - offset);
    if (file->map.bytes != NULL) {
        file_map_drop(&file->map, (size_t)(tensor->bytes - file->bytes) + offset,
                      length);
    }
}

size_t gguf_n_keys(const struct gguf *file)
{
    return file->n_values;
}

const char *gguf_key_at(const struct gguf *file, size_t i)
{
    ASSERT(i < file->n_values);
    return file->values[i].key;
}

/* NULL when the file has no such key. Searched as in gguf_find. */
static const struct gguf_value *find_value(const struct gguf *file, const char *key)
{
    const struct gguf_value wanted = {.key = key};
    const struct gguf_value *pointer = &wanted;
    const struct gguf_value *const *found =
        bsearch(&pointer, file->by_key, file->n_values, sizeof(file->by_key[0]),
                gguf_compare_keys);
    return found != NULL ? *found : NULL;
}

bool gguf_has(const struct gguf *file, const char *key)
{
    return find_value(file, key) != NULL;
}

/* The value, or NULL with a message when the key is missing. */
static const struct gguf_value *require(const struct gguf *file, const char *key,
                                        struct error *err)
{
    const struct gguf_value *value = find_value(file, key);
    if (value == NULL) {
        error_set(err, ERROR_DATA, "%s: key %s is missing", file->where, key);
    }
    return value;
}

/* Names key, found type and expected type. Arrays are named with what they hold. */
static bool wrong_type(const struct gguf *file, const struct gguf_value *value,
                       const char *expected, struct error *err)
{
    const bool is_array = value->type == GGUF_VALUE_ARRAY;
    return error_set(err, ERROR_DATA, "%s: %s is of type %s%s, expected %s",
                     file->where, value->key, is_array ? "array of " : "",
                     type_names[is_array ? value->item_type : value->type], expected);
}

/* Integers of all widths were widened when the file was read, so one field holds them;
 * a u64 that does not fit is the only one that can be negative by mistake. */
bool gguf_integer(const struct gguf *file, const char *key, int64_t *number,
                  struct error *err)
{
    const struct gguf_value *value = require(file, key, err);
    if (value == NULL) {
        return false;
    }
    if (value->type == GGUF_VALUE_F32 || value->type == GGUF_VALUE_F64 ||
        value->type == GGUF_VALUE_BOOL || value->type == GGUF_VALUE_TEXT ||
        value->type == GGUF_VALUE_ARRAY ||
        (value->type == GGUF_VALUE_U64 && value->integer < 0)) {
        return wrong_type(file, value, "an integer", err);
    }
    *number = value->integer;
    return true;
}

/* Integers do not pass as floats: a writer that means a float writes one. */
bool gguf_float(const struct gguf *file, const char *key, double *number,
                struct error *err)
{
    const struct gguf_value *value = require(file, key, err);
    if (value == NULL) {
        return false;
    }
    if (value->type != GGUF_VALUE_F32 && value->type != GGUF_VALUE_F64) {
        return wrong_type(file, value, "a float", err);
    }
    *number = value->number;
    return true;
}

/* Any byte but 0 counts as true. */
bool gguf_bool(const struct gguf *file, const char *key, bool *flag, struct error *err)
{
    const struct gguf_value *value = require(file, key, err);
    if (value == NULL) {
        return false;
    }
    if (value->type != GGUF_VALUE_BOOL) {
        return wrong_type(file, value, "bool", err);
    }
    *flag = value->integer != 0;
    return true;
}

/* The type is right but the value NULL where the text held a NUL or was too long for a
 * copy. */
const char *gguf_string(const struct gguf *file, const char *key, struct error *err)
{
    const struct gguf_value *value = require(file, key, err);
    if (value == NULL) {
        return NULL;
    }
    if (value->type != GGUF_VALUE_TEXT) {
        (void)wrong_type(file, value, "a string", err);
    } else if (value->string == NULL) {
        error_set(err, ERROR_DATA, "%s: %s is no plain text", file->where, key);
    }
    return value->string;
}

/* The items of an array of this type, or NULL with a message. Never NULL for an empty
 * array, as one item more is always allocated. */
static const void *require_items(const struct gguf *file, const char *key,
                                 enum gguf_value_type item_type, size_t *n,
                                 struct error *err)
{
    const struct gguf_value *value = require(file, key, err);
    if (value == NULL) {
        return NULL;
    }
    if (value->type != GGUF_VALUE_ARRAY || value->item_type != item_type) {
        char expected[40];
        snprintf(expected, sizeof(expected), "array of %s", type_names[item_type]);
        (void)wrong_type(file, value, expected, err);
        return NULL;
    }
    *n = value->n_items;
    return value->items;
}

/* Texts point into the file and live as long as it is open. */
const struct gguf_text *gguf_texts(const struct gguf *file, const char *key, size_t *n,
                                   struct error *err)
{
    return require_items(file, key, GGUF_VALUE_TEXT, n, err);
}

const float *gguf_floats(const struct gguf *file, const char *key, size_t *n,
                         struct error *err)
{
    return require_items(file, key, GGUF_VALUE_F32, n, err);
}

const int32_t *gguf_integers(const struct gguf *file, const char *key, size_t *n,
                             struct error *err)
{
    return require_items(file, key, GGUF_VALUE_I32, n, err);
}
