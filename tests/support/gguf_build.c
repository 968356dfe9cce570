/*
 * gguf_build - see gguf_build.h.
 */
#include "support/gguf_build.h"

#include <string.h>

static void add_little_endian(struct str *target, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) {
        const unsigned char byte = (unsigned char)(value >> (8 * i));
        str_add_bytes(target, &byte, 1);
    }
}

void gguf_build_u32(struct str *target, uint32_t value)
{
    add_little_endian(target, value, 4);
}

void gguf_build_u64(struct str *target, uint64_t value)
{
    add_little_endian(target, value, 8);
}

void gguf_build_text(struct str *target, const char *text)
{
    gguf_build_u64(target, strlen(text));
    str_add(target, text);
}

static void pad(struct str *target, size_t multiple)
{
    while (target->length % multiple != 0) {
        str_add_bytes(target, "", 1);
    }
}

void gguf_build_key(struct gguf_build *build, const char *key, uint32_t type)
{
    gguf_build_text(&build->keys, key);
    gguf_build_u32(&build->keys, type);
    build->n_keys++;
}

void gguf_build_integer(struct gguf_build *build, const char *key, uint32_t value)
{
    gguf_build_key(build, key, 4);
    gguf_build_u32(&build->keys, value);
}

void gguf_build_float(struct gguf_build *build, const char *key, float value)
{
    gguf_build_key(build, key, 6);
    str_add_bytes(&build->keys, &value, sizeof(value));
}

void gguf_build_string(struct gguf_build *build, const char *key, const char *value)
{
    gguf_build_key(build, key, 8);
    gguf_build_text(&build->keys, value);
}

void gguf_build_raw_tensor(struct gguf_build *build, const char *name, int rank,
                           const int64_t *ne, enum quant_type type, uint64_t offset,
                           size_t n_data)
{
    gguf_build_text(&build->tensors, name);
    gguf_build_u32(&build->tensors, (uint32_t)rank);
    for (int i = 0; i < rank; i++) {
        gguf_build_u64(&build->tensors, (uint64_t)ne[i]);
    }
    gguf_build_u32(&build->tensors, (uint32_t)type);
    gguf_build_u64(&build->tensors, offset);
    for (size_t i = 0; i < n_data; i++) {
        str_add_bytes(&build->data, "", 1);
    }
    build->n_tensors++;
}

void gguf_build_tensor(struct gguf_build *build, const char *name, int64_t n_in,
                       int64_t n_out, enum quant_type type, const void *bytes)
{
    const int64_t ne[2] = {n_in, n_out};
    const size_t n = (size_t)(n_in * (n_out > 0 ? n_out : 1));
    const size_t n_bytes = n / quant_block_elements(type) * quant_block_bytes(type);
    pad(&build->data, 32);
    gguf_build_raw_tensor(build, name, n_out > 0 ? 2 : 1, ne, type, build->data.length,
                          0);
    str_add_bytes(&build->data, bytes, n_bytes);
}

void gguf_build_finish(const struct gguf_build *build, struct str *file)
{
    str_add(file, "GGUF");
    gguf_build_u32(file, 3);
    gguf_build_u64(file, build->n_tensors);
    gguf_build_u64(file, build->n_keys);
    str_add_bytes(file, str_text(&build->keys), build->keys.length);
    str_add_bytes(file, str_text(&build->tensors), build->tensors.length);
    pad(file, 32);
    str_add_bytes(file, str_text(&build->data), build->data.length);
}

void gguf_build_deinit(struct gguf_build *build)
{
    str_deinit(&build->keys);
    str_deinit(&build->tensors);
    str_deinit(&build->data);
    *build = (struct gguf_build){0};
}
