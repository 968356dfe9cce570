/*
 * gguf_build - makes small GGUF files, good and damaged ones, for tests.
 *
 *     struct gguf_build build = {0};
 *     gguf_build_integer(&build, "gemma3.block_count", 6);
 *     gguf_build_tensor(&build, "output_norm.weight", 32, 1, QUANT_F32, values);
 *     struct str file = {0};
 *     gguf_build_finish(&build, &file);
 */
#ifndef SUPPORT_GGUF_BUILD_H
#define SUPPORT_GGUF_BUILD_H

#include "base/str.h"
#include "formats/quant.h"

struct gguf_build {
    struct str keys;    /* encoded */
    struct str tensors; /* encoded infos */
    struct str data;
    uint64_t n_keys, n_tensors;
};

void gguf_build_u32(struct str *target, uint32_t value);
void gguf_build_u64(struct str *target, uint64_t value);
void gguf_build_text(struct str *target, const char *text);

/* Key and type number; the value is to follow in build->keys. */
void gguf_build_key(struct gguf_build *build, const char *key, uint32_t type);
void gguf_build_integer(struct gguf_build *build, const char *key, uint32_t value);
void gguf_build_float(struct gguf_build *build, const char *key, float value);
void gguf_build_string(struct gguf_build *build, const char *key, const char *value);

/* The info as given, and n_data more zero bytes of data. */
void gguf_build_raw_tensor(struct gguf_build *build, const char *name, int rank,
                           const int64_t *ne, enum quant_type type, uint64_t offset,
                           size_t n_data);

/* A tensor [n_out, n_in] (n_out 0: a vector) with these bytes of the given type. */
void gguf_build_tensor(struct gguf_build *build, const char *name, int64_t n_in,
                       int64_t n_out, enum quant_type type, const void *bytes);

void gguf_build_finish(const struct gguf_build *build, struct str *file);
void gguf_build_deinit(struct gguf_build *build); /* ready to be used again */

#endif
