/*
 * gguf_parts - the parsed form of a GGUF file, between its parser and its getters.
 */
#ifndef FORMATS_GGUF_PARTS_H
#define FORMATS_GGUF_PARTS_H

#include "base/file.h"
#include "formats/gguf.h"

struct arena;

/* Type numbers of metadata values in the file. */
enum gguf_value_type {
    GGUF_VALUE_U8,
    GGUF_VALUE_I8,
    GGUF_VALUE_U16,
    GGUF_VALUE_I16,
    GGUF_VALUE_U32,
    GGUF_VALUE_I32,
    GGUF_VALUE_F32,
    GGUF_VALUE_BOOL,
    GGUF_VALUE_TEXT,
    GGUF_VALUE_ARRAY,
    GGUF_VALUE_U64,
    GGUF_VALUE_I64,
    GGUF_VALUE_F64,
    GGUF_VALUE_TYPE_COUNT
};

/* One metadata pair. */
struct gguf_value {
    const char *key;
    enum gguf_value_type type;
    int64_t integer;    /* integers and bool; a u64 above INT64_MAX is negative */
    double number;      /* floats */
    const char *string; /* a copy; NULL when a NUL is inside */
    enum gguf_value_type item_type; /* of an array */
    size_t n_items;
    void *items; /* owned: gguf_text, float or int32_t; NULL for other item types */
};

struct gguf {
    struct file_map map; /* empty when the bytes are borrowed */
    char *where;
    struct arena *arena;       /* names, keys */
    struct gguf_value *values; /* [n_values] in file order */
    size_t n_values;
    const struct gguf_value **by_key; /* [n_values] sorted */
    struct gguf_tensor *tensors;      /* [n_tensors] in file order */
    size_t n_tensors;
    const struct gguf_tensor **by_name; /* [n_tensors] sorted */
    const unsigned char *bytes;         /* the whole file */
    size_t n_bytes;
};

/* For bsearch and qsort over by_name and by_key. */
int gguf_compare_names(const void *left, const void *right);
int gguf_compare_keys(const void *left, const void *right);

#endif
