/*
 * arena - many small allocations with one lifetime.
 *
 *     struct arena *arena = arena_create();
 *     struct node *node = arena_alloc(arena, sizeof(*node));
 *     ...
 *     arena_destroy(arena);    (everything at once)
 *
 * Not for several threads at once.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/base.h"

struct arena;

/* Nothing is allocated for contents before the first arena_alloc. */
struct arena *arena_create(void);
void arena_destroy(struct arena *arena); /* takes NULL */

/* Zeroed, aligned to 16 bytes, never NULL, valid until the arena is destroyed. */
void *arena_alloc(struct arena *arena, size_t bytes);
void *arena_alloc_array(struct arena *arena, size_t count, size_t element_bytes);

/* Copies that live as long as the arena. */
char *arena_strdup(struct arena *arena, const char *text);
PRINTF_LIKE(2, 3) char *arena_printf(struct arena *arena, const char *format, ...);

/* What was asked for, rounded up to the alignment; chunks may hold more. */
size_t arena_used_bytes(const struct arena *arena);

#endif
