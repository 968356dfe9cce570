/*
 * gguf - see gguf.h. All numbers are little-endian:
 *
 *     "GGUF", u32 version, u64 n_tensors, u64 n_keys
 *     n_keys x    { text key, u32 type, value }           text = u64 length, bytes
 *     n_tensors x { text name, u32 rank, rank x u64 ne, u32 type, u64 offset }
 *     zeros up to a multiple of general.alignment (32 unless given), then the data
 *
 * Counts are held against the bytes that are left before anything is allocated for
 * them.
 */
#include "formats/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/lfs_pointer.h"
#include "base/mem.h"
#include "formats/gguf_parts.h"

enum {
    MAX_NAME_BYTES = 65535,
    MAX_TEXT_BYTES = 64 << 20,
    MIN_KEY_BYTES = 13,    /* empty key, type, one byte */
    MIN_TENSOR_BYTES = 32, /* empty name, rank 1 */
    MAX_ALIGNMENT = 1 << 20
};

/* Bytes of one value; 0 = of variable length. */
static const unsigned char type_bytes[GGUF_VALUE_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4,
                                                                1, 0, 0, 8, 8, 8};

/* One message for every read that did not fit: what exactly is damaged cannot be
 * known. */
static bool cut_short(const struct gguf *file, const char *what, struct error *err)
{
    return error_set(err, ERROR_DATA, "%s: cut short or damaged in %s", file->where,
                     what);
}

/* A length and that many bytes, borrowed; bytes is NULL when they are not there. The
 * length is held against the file before it is narrowed to size_t. */
static struct gguf_text read_text(struct cursor *cursor)
{
    const uint64_t length = cursor_u64(cursor);
    const unsigned char *bytes = cursor_bytes(cursor, length);
    return (struct gguf_text){(const char *)bytes, bytes != NULL ? (size_t)length : 0};
}

/* A NUL-terminated copy, or NULL when it is not there, too long or holds a NUL.
 * arena_alloc clears its memory, which ends the copy. */
static const char *copy_text(struct gguf *file, struct gguf_text text, size_t most)
{
    if (text.bytes == NULL || text.length > most ||
        memchr(text.bytes, '\0', text.length) != NULL) {
        return NULL;
    }
    char *copy = arena_alloc(file->arena, text.length + 1);
    memcpy(copy, text.bytes, text.length);
    return copy;
}

/* Keys and tensor names: short, without NUL. NULL also where the cursor failed: both
 * are a damaged file. */
static const char *read_name(struct gguf *file, struct cursor *cursor)
{
    return copy_text(file, read_text(cursor), MAX_NAME_BYTES);
}

/* One number or bool. A short cursor gives zeros; the caller asks cursor_ok once.
 * Narrow signed types are extended through their own type. A u64 of more than 63 bits
 * becomes negative, which gguf_integer refuses. */
static void read_single(struct cursor *cursor, struct gguf_value *value)
{
    switch (value->type) {
    case GGUF_VALUE_U8:
    case GGUF_VALUE_BOOL:
        value->integer = cursor_u8(cursor);
        return;
    case GGUF_VALUE_I8:
        value->integer = (int8_t)cursor_u8(cursor);
        return;
    case GGUF_VALUE_U16:
        value->integer = cursor_u16(cursor);
        return;
    case GGUF_VALUE_I16:
        value->integer = (int16_t)cursor_u16(cursor);
        return;
    case GGUF_VALUE_U32:
        value->integer = cursor_u32(cursor);
        return;
    case GGUF_VALUE_I32:
        value->integer = (int32_t)cursor_u32(cursor);
        return;
    case GGUF_VALUE_U64:
    case GGUF_VALUE_I64:
        value->integer = (int64_t)cursor_u64(cursor);
        return;
    case GGUF_VALUE_F32:
        value->number = (double)cursor_f32(cursor);
        return;
    case GGUF_VALUE_F64:
        value->number = cursor_f64(cursor);
        return;
    case GGUF_VALUE_TEXT:
        break;
    case GGUF_VALUE_ARRAY:
    case GGUF_VALUE_TYPE_COUNT:
        break;
    }
    UNREACHABLE(); /* handled by the caller */
}

/* Fills value->items from the cursor, which has them all unless the file is damaged.
 * Texts stay in the file and only their places are noted; arrays of other types are
 * passed over, since nothing asks for them. One item more is allocated, so that an
 * empty array is not NULL. */
static bool read_items(struct cursor *cursor, struct gguf_value *value,
                       struct error *err)
{
    const size_t n = value->n_items;
    const bool is_text = value->item_type == GGUF_VALUE_TEXT;
    const size_t item_bytes = is_text ? sizeof(struct gguf_text) : 4;
    if (!is_text && value->item_type != GGUF_VALUE_F32 &&
        value->item_type != GGUF_VALUE_I32) {
        (void)cursor_bytes(cursor, (uint64_t)n * type_bytes[value->item_type]);
        return true;
    }
    value->items = mem_try_alloc((n + 1) * item_bytes, "GGUF array", err);
    if (value->items == NULL) {
        return false;
    }
    for (size_t i = 0; i < n && cursor_ok(cursor); i++) {
        if (is_text) {
            ((struct gguf_text *)value->items)[i] = read_text(cursor);
        } else if (value->item_type == GGUF_VALUE_F32) {
            ((float *)value->items)[i] = cursor_f32(cursor);
        } else {
            ((int32_t *)value->items)[i] = (int32_t)cursor_u32(cursor);
        }
    }
    return true;
}

/* Item type, count, items. The count is held against the bytes that are left. Without
 * that look a damaged count would ask for any amount of memory. */
static bool read_array(const struct gguf *file, struct cursor *cursor,
                       struct gguf_value *value, struct error *err)
{
    const uint32_t item_type = cursor_u32(cursor);
    const uint64_t n = cursor_u64(cursor);
    if (!cursor_ok(cursor)) {
        return cut_short(file, value->key, err);
    }
    if (item_type >= GGUF_VALUE_TYPE_COUNT || item_type == GGUF_VALUE_ARRAY) {
        return error_set(err, ERROR_DATA,
                         "%s: %s is an array of type %u, which cannot be "
                         "read",
                         file->where, value->key, item_type);
    }
    value->item_type = (enum gguf_value_type)item_type;
    const size_t least = item_type == GGUF_VALUE_TEXT ? 8 : type_bytes[item_type];
    if (n > cursor_left(cursor) / least) {
        return cut_short(file, value->key, err);
    }
    value->n_items = (size_t)n;
    return read_items(cursor, value, err);
}

/* One key with its value. Text that is too long or holds a NUL is kept as NULL: an
 * error only for who asks for it. The cursor is asked once, at the end, as reads that
 * do not fit give zeros. */
static bool read_value(struct gguf *file, struct cursor *cursor,
                       struct gguf_value *value, struct error *err)
{
    *value = (struct gguf_value){.key = read_name(file, cursor)};
    if (value->key == NULL) {
        return cut_short(file, "a key", err);
    }
    const uint32_t type = cursor_u32(cursor);
    if (type >= GGUF_VALUE_TYPE_COUNT) {
        return error_set(err, ERROR_DATA, "%s: %s has type %u, which does not exist",
                         file->where, value->key, type);
    }
    value->type = (enum gguf_value_type)type;
    if (value->type == GGUF_VALUE_ARRAY) {
        if (!read_array(file, cursor, value, err)) {
            return false;
        }
    } else if (value->type == GGUF_VALUE_TEXT) {
        value->string = copy_text(file, read_text(cursor), MAX_TEXT_BYTES);
    } else {
        read_single(cursor, value);
    }
    return cursor_ok(cursor) || cut_short(file, value->key, err);
}

/* The tensor's byte count; false when its shape is impossible. n_bytes = (product of ne
 * / elements per block) * bytes per block. Rows are whole blocks, hence the look at
 * ne[0]; sizes beyond 63 bits are negative here and fail as well. */
static bool measure_tensor(struct gguf_tensor *tensor)
{
    size_t n_elements = 1;
    for (int i = 0; i < GGUF_MAX_RANK; i++) {
        if (tensor->ne[i] < 1 ||
            !mem_size_mul(n_elements, (size_t)tensor->ne[i], &n_elements)) {
            return false;
        }
    }
    const size_t per_block = quant_block_elements(tensor->type);
    return (size_t)tensor->ne[0] % per_block == 0 &&
           mem_size_mul(n_elements / per_block, quant_block_bytes(tensor->type),
                        &tensor->n_bytes);
}

/* Reads one info; *offset is where its data is, from the start of the data. The type is
 * checked before the shape, because the size of a block enters the byte count. */
static bool read_tensor(struct gguf *file, struct cursor *cursor,
                        struct gguf_tensor *tensor, uint64_t *offset, struct error *err)
{
    *tensor = (struct gguf_tensor){.name = read_name(file, cursor), .ne = {1, 1, 1, 1}};
    if (tensor->name == NULL) {
        return cut_short(file, "a tensor name", err);
    }
    const uint32_t rank = cursor_u32(cursor);
    if (rank < 1 || rank > GGUF_MAX_RANK) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s has %u dimensions, expected 1 to "
                         "%d",
                         file->where, tensor->name, rank, GGUF_MAX_RANK);
    }
    tensor->rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        tensor->ne[i] = (int64_t)cursor_u64(cursor);
    }
    const uint32_t type = cursor_u32(cursor);
    *offset = cursor_u64(cursor);
    if (!cursor_ok(cursor)) {
        return cut_short(file, tensor->name, err);
    }
    if (!quant_type_from_number(type, &tensor->type)) {
        return error_set(
            err, ERROR_DATA,
            "%s: tensor %s has type number %u; F32, F16, BF16, Q8_0, Q5_0, "
            "Q4_K and Q6_K can be read",
            file->where, tensor->name, type);
    }
    if (!measure_tensor(tensor)) {
        return error_set(err, ERROR_DATA, "%s: tensor %s has an impossible shape",
                         file->where, tensor->name);
    }
    return true;
}

/* Sets tensor->bytes when its data lies inside the file, aligned. Written as
 * differences, which cannot wrap: data_begin is at most n_bytes, and offset is compared
 * with what is left after it. */
static bool place_tensor(const struct gguf *file, struct gguf_tensor *tensor,
                         size_t data_begin, uint64_t alignment, uint64_t offset,
                         struct error *err)
{
    const size_t data_bytes = file->n_bytes - data_begin;
    if (offset % alignment != 0 || offset > data_bytes ||
        tensor->n_bytes > data_bytes - offset) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s: %zu bytes at %" PRIu64
                         " do not lie in the %zu bytes of data",
                         file->where, tensor->name, tensor->n_bytes, offset,
                         data_bytes);
    }
    tensor->bytes = file->bytes + data_begin + offset;
    return true;
}

/* For the overlap check: by address of the data. */
static int compare_places(const void *left, const void *right)
{
    const struct gguf_tensor *const *a = left;
    const struct gguf_tensor *const *b = right;
    return ((*a)->bytes > (*b)->bytes) - ((*a)->bytes < (*b)->bytes);
}

/* Elements are pointers to tensors. */
int gguf_compare_names(const void *left, const void *right)
{
    const struct gguf_tensor *const *a = left;
    const struct gguf_tensor *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Elements are pointers to values. */
int gguf_compare_keys(const void *left, const void *right)
{
    const struct gguf_value *const *a = left;
    const struct gguf_value *const *b = right;
    return strcmp((*a)->key, (*b)->key);
}

/* Overlap and doubled names; leaves by_name sorted. by_name serves for both sorts:
 * first by place, where only neighbours can overlap, then by name, where equal names
 * are neighbours. */
static bool index_tensors(struct gguf *file, struct error *err)
{
    const size_t n = file->n_tensors;
    for (size_t i = 0; i < n; i++) {
        file->by_name[i] = &file->tensors[i];
    }
    qsort(file->by_name, n, sizeof(file->by_name[0]), compare_places);
    for (size_t i = 1; i < n; i++) {
        const struct gguf_tensor *before = file->by_name[i - 1];
        if (before->bytes + before->n_bytes > file->by_name[i]->bytes) {
            return error_set(err, ERROR_DATA, "%s: tensors %s and %s overlap",
                             file->where, before->name, file->by_name[i]->name);
        }
    }
    qsort(file->by_name, n, sizeof(file->by_name[0]), gguf_compare_names);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0) {
            return error_set(err, ERROR_DATA, "%s: tensor %s is there twice",
                             file->where, file->by_name[i]->name);
        }
    }
    return true;
}

/* All keys, then their order by name with a look for doubled ones. A key takes at least
 * MIN_KEY_BYTES, so n cannot exceed what the file has room for. */
static bool read_values(struct gguf *file, struct cursor *cursor, uint64_t n,
                        struct error *err)
{
    if (n > cursor_left(cursor) / MIN_KEY_BYTES) {
        return cut_short(file, "the number of keys", err);
    }
    file->values = mem_try_alloc((n + 1) * sizeof(file->values[0]), "GGUF keys", err);
    file->by_key = mem_try_alloc((n + 1) * sizeof(file->by_key[0]), "GGUF keys", err);
    if (file->values == NULL || file->by_key == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        /* Counted first: a failed value may own items. */
        if (!read_value(file, cursor, &file->values[file->n_values++], err)) {
            return false;
        }
        file->by_key[i] = &file->values[i];
    }
    qsort(file->by_key, n, sizeof(file->by_key[0]), gguf_compare_keys);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(file->by_key[i - 1]->key, file->by_key[i]->key) == 0) {
            return error_set(err, ERROR_DATA, "%s: key %s is there twice", file->where,
                             file->by_key[i]->key);
        }
    }
    return true;
}

/* What tensor data is aligned to: 32 unless the file says otherwise. The bound keeps
 * rounding up from wrapping. */
static bool read_alignment(const struct gguf *file, uint64_t *alignment,
                           struct error *err)
{
    int64_t value = 32;
    if (gguf_has(file, "general.alignment") &&
        !gguf_integer(file, "general.alignment", &value, err)) {
        return false;
    }
    if (value < 1 || value > MAX_ALIGNMENT || (value & (value - 1)) != 0) {
        return error_set(err, ERROR_DATA,
                         "%s: general.alignment is %" PRId64
                         ", expected a power of two",
                         file->where, value);
    }
    *alignment = (uint64_t)value;
    return true;
}

/* All infos, then the places of the data, which begins at the next aligned byte.
 * Offsets are kept beside the tensors until the end of the infos is known. n_tensors is
 * set only when all are placed: until then gguf_find sees none. */
static bool read_tensors(struct gguf *file, struct cursor *cursor, uint64_t n,
                         struct error *err)
{
    uint64_t alignment = 0;
    if (!read_alignment(file, &alignment, err)) {
        return false;
    }
    if (n > cursor_left(cursor) / MIN_TENSOR_BYTES) {
        return cut_short(file, "the number of tensors", err);
    }
    bool done = false;
    uint64_t *offsets =
        mem_try_alloc((n + 1) * sizeof(offsets[0]), "GGUF tensors", err);
    file->tensors =
        mem_try_alloc((n + 1) * sizeof(file->tensors[0]), "GGUF tensors", err);
    file->by_name =
        mem_try_alloc((n + 1) * sizeof(file->by_name[0]), "GGUF tensors", err);
    if (offsets == NULL || file->tensors == NULL || file->by_name == NULL) {
        goto end;
    }
    for (size_t i = 0; i < n; i++) {
        if (!read_tensor(file, cursor, &file->tensors[i], &offsets[i], err)) {
            goto end;
        }
    }
    /* Data begins at the next aligned byte; in a file without data that may lie past
     * its end. */
    const size_t padded =
        (size_t)base_round_up((int64_t)cursor->position, (int64_t)alignment);
    const size_t data_begin = padded < file->n_bytes ? padded : file->n_bytes;
    for (size_t i = 0; i < n; i++) {
        if (!place_tensor(file, &file->tensors[i], data_begin, alignment, offsets[i],
                          err)) {
            goto end;
        }
    }
    file->n_tensors = (size_t)n;
    done = index_tensors(file, err);
end:
    mem_free(offsets);
    return done;
}

/* From the first allocation on one label is enough, as gguf_close takes a file that was
 * filled in part. */
struct gguf *gguf_view(const void *bytes, size_t length, const char *where,
                       struct error *err)
{
    struct cursor cursor = cursor_view(bytes, length);
    const unsigned char *magic = cursor_bytes(&cursor, 4);
    const uint32_t version = cursor_u32(&cursor);
    const uint64_t n_tensors = cursor_u64(&cursor);
    const uint64_t n_values = cursor_u64(&cursor);
    if (!lfs_pointer_check(bytes, length, where, err)) {
        return NULL;
    }
    if (magic == NULL || memcmp(magic, "GGUF", 4) != 0) {
        error_set(err, ERROR_DATA, "%s: not a GGUF file", where);
        return NULL;
    }
    if (version != 3) {
        error_set(err, ERROR_DATA, "%s: GGUF version %u, expected 3", where, version);
        return NULL;
    }
    struct gguf *file = mem_alloc(sizeof(*file));
    file->where = mem_strdup(where);
    file->arena = arena_create();
    file->bytes = bytes;
    file->n_bytes = length;
    if (!cursor_ok(&cursor)) {
        (void)cut_short(file, "the header", err);
        goto fail;
    }
    if (!read_values(file, &cursor, n_values, err) ||
        !read_tensors(file, &cursor, n_tensors, err)) {
        goto fail;
    }
    return file;
fail:
    gguf_close(file);
    return NULL;
}

/* The map is handed over last, so that only one side ever closes it. */
struct gguf *gguf_open(const char *path, struct error *err)
{
    struct file_map map;
    if (!file_map_open(&map, path, err)) {
        return NULL;
    }
    struct gguf *file = gguf_view(map.bytes, map.length, path, err);
    if (file == NULL) {
        file_map_close(&map);
        return NULL;
    }
    file->map = map;
    return file;
}

/* Names and keys go with the arena; items of arrays were allocated one by one. */
void gguf_close(struct gguf *file)
{
    if (file == NULL) {
        return;
    }
    for (size_t i = 0; i < file->n_values; i++) {
        mem_free(file->values[i].items);
    }
    mem_free(file->values);
    mem_free(file->by_key);
    mem_free(file->tensors);
    mem_free(file->by_name);
    arena_destroy(file->arena);
    mem_free(file->where);
    file_map_close(&file->map);
    mem_free(file);
}
