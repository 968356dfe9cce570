/*
 * safetensors_write - the writer of safetensors.h.
 *
 * The header is padded with spaces to a multiple of eight bytes, so that data starts
 * aligned. Tensors follow in the order of the entries.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/safetensors.h"
#include "formats/safetensors_dtype.h"

struct safetensors_writer {
    struct file_writer *file;
    size_t left; /* bytes of data still to come */
};

/* Bytes of one entry; sizes of what is in memory already, so they fit. bytes = bytes
 * per element * product of the sizes. */
static size_t entry_bytes(const struct safetensors_entry *entry)
{
    size_t bytes = dtype_bytes(entry->dtype);
    for (int i = 0; i < entry->rank; i++) {
        const bool fits = mem_size_mul(bytes, (size_t)entry->dim[i], &bytes);
        ASSERT(fits && entry->dim[i] >= 0);
    }
    return bytes;
}

/* {"dtype", "shape", "data_offsets"} of a tensor whose data begins at `begin`. Offsets
 * count from the end of the header. */
static json_t *entry_to_json(const struct safetensors_entry *entry, size_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < entry->rank; i++) {
        json_array_append_new(shape, json_integer(entry->dim[i]));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                     safetensors_dtype_name(entry->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + entry_bytes(entry)));
}

/* The header as text, padded; *data_bytes is what must follow. "format": "pt" is what
 * the Hugging Face library expects of files that it should open as PyTorch weights.
 * jansson keeps the order of insertion, so equal entries give equal bytes. */
static char *make_header(const struct safetensors_entry *entries, size_t n,
                         const struct safetensors_note *notes, size_t n_notes,
                         size_t *data_bytes)
{
    json_t *root = json_object();
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    /* It fails for texts that are not UTF-8, and a tensor that is missing from the
     * header would leave a hole in the data. */
    bool is_complete = true;
    for (size_t i = 0; i < n_notes; i++) {
        json_t *value = json_string(notes[i].value);
        is_complete =
            json_object_set_new(metadata, notes[i].key, value) == 0 && is_complete;
    }
    json_object_set_new(root, "__metadata__", metadata);
    size_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        ASSERT(json_object_get(root, entries[i].name) == NULL);
        json_t *value = entry_to_json(&entries[i], offset);
        is_complete =
            json_object_set_new(root, entries[i].name, value) == 0 && is_complete;
        offset += entry_bytes(&entries[i]);
    }
    ASSERT(is_complete);
    *data_bytes = offset;

    char *text = json_dumps(root, JSON_COMPACT);
    ASSERT(text != NULL);
    json_decref(root);
    const size_t length = strlen(text);
    const size_t padded = (size_t)base_round_up((int64_t)length, 8);
    char *header = mem_alloc(padded + 1);
    memset(header, ' ', padded);
    memcpy(header, text, length);
    free(text);
    return header;
}

struct safetensors_writer *
safetensors_writer_open(const char *path, const struct safetensors_entry *entries,
                        size_t n, const struct safetensors_note *notes, size_t n_notes,
                        struct error *err)
{
    struct file_writer *file = file_writer_open(path, err);
    if (file == NULL) {
        return NULL;
    }
    size_t data_bytes;
    char *header = make_header(entries, n, notes, n_notes, &data_bytes);
    /* The padded length, in front of the header and little-endian. */
    const uint64_t length = strlen(header);
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) {
        prefix[i] = (unsigned char)(length >> (8 * i));
    }
    const bool done = file_writer_add(file, prefix, sizeof(prefix), err) &&
                      file_writer_add(file, header, length, err);
    mem_free(header);
    if (!done) {
        file_writer_abort(file);
        return NULL;
    }
    struct safetensors_writer *writer = mem_alloc(sizeof(*writer));
    writer->file = file;
    writer->left = data_bytes;
    return writer;
}

/* Only the sum is kept count of: which bytes belong to which entry follows from their
 * order. */
bool safetensors_writer_add(struct safetensors_writer *writer, const void *bytes,
                            size_t n_bytes, struct error *err)
{
    ASSERT(n_bytes <= writer->left);
    writer->left -= n_bytes;
    return file_writer_add(writer->file, bytes, n_bytes, err);
}

/* The file is written under another name and renamed, so a crash before this leaves no
 * half file under `path`. */
bool safetensors_writer_commit(struct safetensors_writer *owned_writer,
                               struct error *err)
{
    ASSERT(owned_writer->left == 0);
    const bool done = file_writer_commit(owned_writer->file, err);
    mem_free(owned_writer);
    return done;
}

void safetensors_writer_abort(struct safetensors_writer *owned_writer)
{
    if (owned_writer != NULL) {
        file_writer_abort(owned_writer->file);
        mem_free(owned_writer);
    }
}
