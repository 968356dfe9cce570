/*
 * safetensors - see safetensors.h. Here: the reader. The JSON header is the only thing
 * that is parsed; jansson refuses duplicate keys and numbers that do not fit, the rest
 * is checked here with arithmetic that cannot wrap.
 */
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lfs_pointer.h"
#include "base/mem.h"
#include "formats/safetensors_dtype.h"

struct safetensors {
    struct file_map map;       /* empty when the bytes are borrowed */
    const unsigned char *data; /* what offsets count from */
    size_t data_bytes;
    char *where;
    json_t *header;                     /* owns the names */
    struct tensor_view *views;          /* [n] in the order of their bytes */
    const struct tensor_view **by_name; /* [n] sorted */
    size_t n;
};

/* A non-negative integer; jansson has refused those beyond 63 bits. */
static bool read_size(const json_t *value, uint64_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *size = (uint64_t)json_integer_value(value);
    return true;
}

/* The shape, and from it view->n_bytes. A zero anywhere makes the tensor empty, however
 * large the other sizes are. n_bytes = bytes per element * product of the sizes; a
 * tensor without sizes is one element. */
static bool read_shape(const json_t *shape, struct tensor_view *view, const char *where,
                       struct error *err)
{
    if (!json_is_array(shape) || json_array_size(shape) > TENSOR_VIEW_MAX_RANK) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s: shape is no array of at most %d sizes", where,
                         view->name, TENSOR_VIEW_MAX_RANK);
    }
    view->rank = (int)json_array_size(shape);
    view->n_bytes = dtype_bytes(view->dtype);
    bool fits = true;
    bool is_empty = false;
    for (int i = 0; i < view->rank; i++) {
        uint64_t size;
        if (!read_size(json_array_get(shape, (size_t)i), &size)) {
            return error_set(err, ERROR_DATA,
                             "%s: tensor %s: shape holds no size at %d", where,
                             view->name, i);
        }
        view->dim[i] = (int64_t)size;
        is_empty = is_empty || size == 0;
        fits = fits && mem_size_mul(view->n_bytes, size, &view->n_bytes);
    }
    /* Sizes beyond SIZE_MAX do not matter when one of them is 0. */
    if (is_empty) {
        view->n_bytes = 0;
    } else if (!fits) {
        return error_set(err, ERROR_DATA, "%s: tensor %s: shape is too large", where,
                         view->name);
    }
    return true;
}

/* Fills the view from its header entry; bytes are set when the range is known good.
 * begin <= end <= data_bytes and end - begin = n_bytes together leave no way out of the
 * file. */
static bool read_entry(const struct safetensors *file, const char *name,
                       const json_t *entry, struct tensor_view *view, struct error *err)
{
    *view = (struct tensor_view){.name = name};
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (dtype == NULL || !safetensors_dtype_from_name(dtype, &view->dtype)) {
        return error_set(err, ERROR_DATA, "%s: tensor %s: dtype %.20s cannot be read",
                         file->where, name, dtype != NULL ? dtype : "is missing and");
    }
    if (!read_shape(json_object_get(entry, "shape"), view, file->where, err)) {
        return false;
    }
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin;
    uint64_t end;
    if (json_array_size(offsets) != 2 ||
        !read_size(json_array_get(offsets, 0), &begin) ||
        !read_size(json_array_get(offsets, 1), &end)) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s: data_offsets is no pair of sizes", file->where,
                         name);
    }
    if (begin > end || end > file->data_bytes) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s lies at %" PRIu64 " to %" PRIu64
                         ", the file has %zu bytes of data",
                         file->where, name, begin, end, file->data_bytes);
    }
    if (end - begin != view->n_bytes) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s has %" PRIu64
                         " bytes, its dtype and shape need %zu",
                         file->where, name, end - begin, view->n_bytes);
    }
    view->bytes = file->data + begin;
    return true;
}

/* Notes are strings only, by the format. Readers elsewhere rely on it, so a file that
 * breaks it is refused here, too. */
static bool check_metadata(const struct safetensors *file, json_t *metadata,
                           struct error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) {
        return error_set(err, ERROR_DATA, "%s: __metadata__ is no object", file->where);
    }
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value)) {
            return error_set(err, ERROR_DATA, "%s: __metadata__ \"%.60s\" is no string",
                             file->where, key);
        }
    }
    return true;
}

/* By address of the data, so that neighbours in the sorted table are neighbours in the
 * file. Names break the last ties, so that the order of the table depends on the file
 * alone. */
static int compare_places(const void *left, const void *right)
{
    const struct tensor_view *a = left;
    const struct tensor_view *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    if (a->n_bytes != b->n_bytes) { /* empty tensors first, so that places chain */
        return a->n_bytes < b->n_bytes ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

/* For by_name, whose elements are pointers. */
static int compare_names(const void *left, const void *right)
{
    const struct tensor_view *const *a = left;
    const struct tensor_view *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Sorts by place and checks that the tensors cover the data exactly. covered is where
 * the tensors so far end; each one must begin right there. Overlap and holes are
 * refused because they are ways to hide data or to make one tensor change with
 * another. */
static bool check_cover(const struct safetensors *file, struct error *err)
{
    qsort(file->views, file->n, sizeof(file->views[0]), compare_places);
    size_t covered = 0;
    for (size_t i = 0; i < file->n; i++) {
        const struct tensor_view *view = &file->views[i];
        const size_t begin = (size_t)(view->bytes - file->data);
        if (begin != covered) {
            return error_set(
                err, ERROR_DATA,
                "%s: tensor %s begins at %zu, %s the one before, which ends "
                "at %zu",
                file->where, view->name, begin,
                begin < covered ? "inside" : "leaving a hole after", covered);
        }
        covered += view->n_bytes;
    }
    if (covered != file->data_bytes) {
        return error_set(err, ERROR_DATA,
                         "%s: tensors end at %zu, the file has %zu bytes of data",
                         file->where, covered, file->data_bytes);
    }
    return true;
}

/* All entries, then their cover of the data, then the index by name. Names are borrowed
 * from the JSON object, which lives as long as the file. */
static bool read_header(struct safetensors *file, struct error *err)
{
    /* One more, so that the arrays exist when there are no tensors. */
    const size_t n_entries = json_object_size(file->header) + 1;
    file->views =
        mem_try_alloc(n_entries * sizeof(file->views[0]), "tensor table", err);
    file->by_name =
        mem_try_alloc(n_entries * sizeof(file->by_name[0]), "tensor names", err);
    if (file->views == NULL || file->by_name == NULL) {
        return false;
    }
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!check_metadata(file, entry, err)) {
                return false;
            }
        } else if (!read_entry(file, name, entry, &file->views[file->n++], err)) {
            return false;
        }
    }
    if (!check_cover(file, err)) {
        return false;
    }
    for (size_t i = 0; i < file->n; i++) {
        file->by_name[i] = &file->views[i];
    }
    qsort(file->by_name, file->n, sizeof(file->by_name[0]), compare_names);
    return true;
}

/* From the first allocation on one label is enough, as safetensors_close takes a file
 * that was filled in part. */
struct safetensors *safetensors_view(const void *bytes, size_t length,
                                     const char *where, struct error *err)
{
    struct cursor cursor = cursor_view(bytes, length);
    if (!lfs_pointer_check(bytes, length, where, err)) {
        return NULL;
    }
    const uint64_t header_bytes = cursor_u64(&cursor);
    if (!cursor_ok(&cursor) || header_bytes > SAFETENSORS_MAX_HEADER_BYTES) {
        error_set(err, ERROR_DATA,
                  "%s: not a safetensors file (%zu bytes, header of %" PRIu64 ")",
                  where, length, header_bytes);
        return NULL;
    }
    const unsigned char *header = cursor_bytes(&cursor, header_bytes);
    if (header == NULL) {
        error_set(err, ERROR_DATA,
                  "%s: cut short: %zu bytes, the header alone has %" PRIu64, where,
                  length, header_bytes);
        return NULL;
    }
    struct safetensors *file = mem_alloc(sizeof(*file));
    file->where = mem_strdup(where);
    file->data = header + header_bytes;
    file->data_bytes = cursor_left(&cursor);
    file->header = json_parse((const char *)header, header_bytes, where, err);
    if (file->header == NULL) {
        goto fail;
    }
    if (!json_is_object(file->header)) {
        error_set(err, ERROR_DATA, "%s: the header is no JSON object", where);
        goto fail;
    }
    if (!read_header(file, err)) {
        goto fail;
    }
    return file;
fail:
    safetensors_close(file);
    return NULL;
}

/* The map is handed over last, so that only one side ever closes it. */
struct safetensors *safetensors_open(const char *path, struct error *err)
{
    struct file_map map;
    if (!file_map_open(&map, path, err)) {
        return NULL;
    }
    struct safetensors *file = safetensors_view(map.bytes, map.length, path, err);
    if (file == NULL) {
        file_map_close(&map);
        return NULL;
    }
    file->map = map;
    return file;
}

/* Takes one that was opened in part, as safetensors_view does on failure. */
void safetensors_close(struct safetensors *file)
{
    if (file == NULL) {
        return;
    }
    json_decref(file->header);
    mem_free(file->views);
    mem_free(file->by_name);
    mem_free(file->where);
    file_map_close(&file->map);
    mem_free(file);
}

size_t safetensors_count(const struct safetensors *file)
{
    return file->n;
}

const struct tensor_view *safetensors_at(const struct safetensors *file, size_t i)
{
    ASSERT(i < file->n);
    return &file->views[i];
}

/* The key of the search is a pointer to a stand-in with only a name, since by_name
 * holds pointers. */
const struct tensor_view *safetensors_find(const struct safetensors *file,
                                           const char *name)
{
    const struct tensor_view wanted = {.name = name};
    const struct tensor_view *key = &wanted;
    const struct tensor_view *const *found =
        bsearch(&key, file->by_name, file->n, sizeof(file->by_name[0]), compare_names);
    return found != NULL ? *found : NULL;
}

/* jansson gives NULL for each step that is missing, and check_metadata made sure that
 * values are strings. */
const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    const json_t *metadata = json_object_get(file->header, "__metadata__");
    return json_string_value(json_object_get(metadata, key));
}

/* Borrowed bytes are not a map and are left alone. */
void safetensors_drop(const struct safetensors *file, const struct tensor_view *view,
                      size_t offset, size_t length)
{
    ASSERT(offset <= view->n_bytes && length <= view->n_bytes - offset);
    if (file->map.bytes != NULL) {
        file_map_drop(&file->map, (size_t)(view->bytes - file->map.bytes) + offset,
                      length);
    }
}
