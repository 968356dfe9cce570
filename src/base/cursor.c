/*
 * cursor - bounded reads. Every read goes through cursor_bytes, the one place where the
 * end is checked.
 */
#include "base/cursor.h"

#include <string.h>

struct cursor cursor_view(const void *bytes, size_t length)
{
    return (struct cursor){.bytes = bytes, .length = length};
}

bool cursor_ok(const struct cursor *cursor)
{
    return !cursor->failed;
}

size_t cursor_left(const struct cursor *cursor)
{
    return cursor->failed ? 0 : cursor->length - cursor->position;
}

const unsigned char *cursor_bytes(struct cursor *cursor, uint64_t length)
{
    /* Compared as what is left, so that a huge length cannot wrap around. */
    if (cursor->failed || length > cursor->length - cursor->position) {
        cursor->failed = true;
        return NULL;
    }
    if (cursor->bytes == NULL) {
        return (const unsigned char *)""; /* nothing asked of nothing */
    }
    const unsigned char *bytes = cursor->bytes + cursor->position;
    cursor->position += (size_t)length;
    return bytes;
}

/* n_bytes in 1 .. 8. Byte by byte: files are little-endian whatever the machine is, and
 * fields need not be aligned. A failed cursor gives 0. */
static uint64_t read_little_endian(struct cursor *cursor, int n_bytes)
{
    const unsigned char *bytes = cursor_bytes(cursor, (uint64_t)n_bytes);
    uint64_t value = 0;
    for (int i = 0; bytes != NULL && i < n_bytes; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

uint8_t cursor_u8(struct cursor *cursor)
{
    return (uint8_t)read_little_endian(cursor, 1);
}

uint16_t cursor_u16(struct cursor *cursor)
{
    return (uint16_t)read_little_endian(cursor, 2);
}

uint32_t cursor_u32(struct cursor *cursor)
{
    return (uint32_t)read_little_endian(cursor, 4);
}

uint64_t cursor_u64(struct cursor *cursor)
{
    return read_little_endian(cursor, 8);
}

/* The bits as they are, NaN included; memcpy is the defined way to read them as a
 * number. */
float cursor_f32(struct cursor *cursor)
{
    const uint32_t bits = cursor_u32(cursor);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

double cursor_f64(struct cursor *cursor)
{
    const uint64_t bits = cursor_u64(cursor);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
