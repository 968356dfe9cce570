/*
 * gguf - reads GGUF files, version 3: metadata (key -> value) and quantised tensors.
 *
 * Everything is checked when the file is opened: names unique, types known, every
 * tensor inside the file. Tensor data stays in the mapped file; ne[0] is the contiguous
 * dimension, so ne = (in, out) is a row-major [out, in] matrix.
 *
 *     struct gguf *file = gguf_open(path, err);
 *     size_t n;
 *     const struct gguf_text *texts =
 *         gguf_texts(file, "tokenizer.ggml.tokens", &n, err);
 *
 * Getters fail with the key named when it is missing (ask gguf_has first for optional
 * ones) or holds another type. An open file may be read by several threads.
 */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include "base/base.h"
#include "formats/quant.h"

struct error;

enum { GGUF_MAX_RANK = 4 };

struct gguf;

/* A string of the file: not NUL-terminated, may hold any bytes. */
struct gguf_text {
    const char *bytes;
    size_t length;
};

struct gguf_tensor {
    const char *name;
    enum quant_type type;
    int rank;                  /* 1 .. GGUF_MAX_RANK */
    int64_t ne[GGUF_MAX_RANK]; /* innermost first; 1 beyond rank */
    const unsigned char *bytes;
    size_t n_bytes;
};

MUST_USE struct gguf *gguf_open(const char *path, struct error *err);

/* The same over borrowed bytes; `where` names them in messages. */
MUST_USE struct gguf *gguf_view(const void *bytes, size_t length, const char *where,
                                struct error *err);
void gguf_close(struct gguf *file); /* takes NULL */

size_t gguf_n_tensors(const struct gguf *file);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *file, size_t i);
const struct gguf_tensor *gguf_find(const struct gguf *file, const char *name);

/* Bytes [offset, offset + length) of the tensor are not needed again soon. */
void gguf_drop(const struct gguf *file, const struct gguf_tensor *tensor, size_t offset,
               size_t length);

size_t gguf_n_keys(const struct gguf *file);
const char *gguf_key_at(const struct gguf *file, size_t i);
bool gguf_has(const struct gguf *file, const char *key);

/* Single values. Integers of every width, floats of both widths, strings as a
 * NUL-terminated copy (a string with a NUL inside is an error). */
MUST_USE bool gguf_integer(const struct gguf *file, const char *key, int64_t *value,
                           struct error *err);
MUST_USE bool gguf_float(const struct gguf *file, const char *key, double *value,
                         struct error *err);
MUST_USE bool gguf_bool(const struct gguf *file, const char *key, bool *value,
                        struct error *err);
MUST_USE const char *gguf_string(const struct gguf *file, const char *key,
                                 struct error *err);

/* Arrays of strings, f32 and 32-bit integers, with their length; NULL = failed (never
 * for an empty array). */
MUST_USE const struct gguf_text *gguf_texts(const struct gguf *file, const char *key,
                                            size_t *n, struct error *err);
MUST_USE const float *gguf_floats(const struct gguf *file, const char *key, size_t *n,
                                  struct error *err);
MUST_USE const int32_t *gguf_integers(const struct gguf *file, const char *key,
                                      size_t *n, struct error *err);

#endif
