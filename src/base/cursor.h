/*
 * cursor - reads bytes that came from outside, never past their end.
 *
 * After the first read that does not fit, the cursor is failed: every later read gives
 * zeros and cursor_ok is false. A parser reads a group of fields, then asks once.
 */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include "base/base.h"

struct cursor {
    const unsigned char *bytes; /* borrowed */
    size_t length;              /* of bytes */
    size_t position;            /* of the next read, at most length */
    bool failed;                /* stays true once a read did not fit */
};

struct cursor cursor_view(const void *bytes, size_t length);
bool cursor_ok(const struct cursor *cursor);
size_t cursor_left(const struct cursor *cursor); /* 0 once failed */

/* Little-endian numbers. */
uint8_t cursor_u8(struct cursor *cursor);
uint16_t cursor_u16(struct cursor *cursor);
uint32_t cursor_u32(struct cursor *cursor);
uint64_t cursor_u64(struct cursor *cursor);
float cursor_f32(struct cursor *cursor);
double cursor_f64(struct cursor *cursor);

/* The next `length` bytes, borrowed, or NULL when they are not there. */
const unsigned char *cursor_bytes(struct cursor *cursor, uint64_t length);

#endif
