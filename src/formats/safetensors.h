/*
 * safetensors - the weight files of the Hugging Face world, in and out.
 *
 * A file is an 8-byte little-endian header length, that many bytes of JSON (name ->
 * {dtype, shape, data_offsets}, and an optional "__metadata__" map of strings), and the
 * data. The reader accepts only files whose tensors cover the data without hole,
 * overlap or rest, whose names are unique and whose shapes fit their byte ranges;
 * everything is checked before the first tensor is handed out. Data stays in the mapped
 * file.
 *
 *     struct safetensors *file = safetensors_open(path, err);
 *     const struct tensor_view *view = safetensors_find(file, "model.norm.weight");
 *     ...
 *     safetensors_close(file);
 *
 * An open file may be read by several threads; a writer belongs to one.
 */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include "base/base.h"
#include "base/dtype.h"
#include "formats/tensor_view.h"

struct error;

enum { SAFETENSORS_MAX_HEADER_BYTES = 100 * 1000 * 1000 };

struct safetensors;

/* Maps and checks the file. */
MUST_USE struct safetensors *safetensors_open(const char *path, struct error *err);

/* The same over bytes[0 .. length), which are borrowed until safetensors_close; `where`
 * names them in messages. */
MUST_USE struct safetensors *safetensors_view(const void *bytes, size_t length,
                                              const char *where, struct error *err);
void safetensors_close(struct safetensors *file); /* takes NULL */

/* Tensors in the order of their bytes; 0 <= i < safetensors_count(file). */
size_t safetensors_count(const struct safetensors *file);
const struct tensor_view *safetensors_at(const struct safetensors *file, size_t i);

/* The tensor called `name`, or NULL. */
const struct tensor_view *safetensors_find(const struct safetensors *file,
                                           const char *name);

/* The value of a "__metadata__" key, or NULL. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* Bytes [offset, offset + length) of the tensor are not needed again soon. */
void safetensors_drop(const struct safetensors *file, const struct tensor_view *view,
                      size_t offset, size_t length);

/* One tensor to be written. */
struct safetensors_entry {
    const char *name;
    enum dtype dtype;
    int rank;
    int64_t dim[TENSOR_VIEW_MAX_RANK];
};

/* One "__metadata__" pair to be written. */
struct safetensors_note {
    const char *key;
    const char *value;
};

/*
 * Streams a file: entries[0 .. n) say what comes, then safetensors_writer_add hands
 * over the bytes of the entries one after the other, in pieces of any size. The
 * metadata is {"format": "pt"} and notes[0 .. n_notes). The file appears under `path`
 * with safetensors_writer_commit (which frees the writer, also when it fails; all bytes
 * must have been added), or not at all. Entries are borrowed by the open call only.
 */
struct safetensors_writer;
MUST_USE struct safetensors_writer *
safetensors_writer_open(const char *path, const struct safetensors_entry *entries,
                        size_t n, const struct safetensors_note *notes, size_t n_notes,
                        struct error *err);
MUST_USE bool safetensors_writer_add(struct safetensors_writer *writer,
                                     const void *bytes, size_t n_bytes,
                                     struct error *err);
MUST_USE bool safetensors_writer_commit(struct safetensors_writer *owned_writer,
                                        struct error *err);
void safetensors_writer_abort(struct safetensors_writer *owned_writer); /* takes NULL */

#endif
