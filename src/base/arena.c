/*
 * arena - chunks that are filled from the front and freed together.
 *
 * Chunks double from 16 KiB to 1 MiB; what does not fit into the current chunk starts a
 * new one, at least as large as itself.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum {
    ARENA_ALIGNMENT = 16,
    FIRST_CHUNK_BYTES = 16 << 10,
    LARGEST_CHUNK_BYTES = 1 << 20,
};

/* The bytes of the chunk follow its header, 64 bytes on. */
struct chunk {
    struct chunk *next; /* older one */
    size_t capacity;    /* bytes behind the header */
    size_t used;        /* of them, from the front */
};

struct arena {
    struct chunk *newest;    /* the only one with room left; NULL at first */
    size_t next_chunk_bytes; /* capacity of the next chunk */
    size_t used_bytes;       /* in all chunks */
};

struct arena *arena_create(void)
{
    struct arena *arena = mem_alloc(sizeof(*arena));
    arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
    return arena;
}

void arena_destroy(struct arena *arena)
{
    if (arena == NULL) {
        return;
    }
    struct chunk *chunk = arena->newest;
    while (chunk != NULL) {
        struct chunk *next = chunk->next;
        mem_free(chunk);
        chunk = next;
    }
    mem_free(arena);
}

/* What is left of the chunk before is given up: it was less than is asked for now. */
static void add_chunk(struct arena *arena, size_t at_least)
{
    const size_t capacity =
        at_least > arena->next_chunk_bytes ? at_least : arena->next_chunk_bytes;
    struct chunk *chunk = mem_alloc(MEM_ALIGNMENT + capacity);
    chunk->capacity = capacity;
    chunk->next = arena->newest;
    arena->newest = chunk;
    if (arena->next_chunk_bytes < LARGEST_CHUNK_BYTES) {
        arena->next_chunk_bytes *= 2;
    }
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    ASSERT(bytes <= PTRDIFF_MAX - 2 * (size_t)MEM_ALIGNMENT);
    /* Nothing still gets an address of its own. */
    const size_t rounded =
        bytes == 0 ? ARENA_ALIGNMENT
                   : (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (arena->newest == NULL ||
        arena->newest->capacity - arena->newest->used < rounded) {
        add_chunk(arena, rounded);
    }
    struct chunk *chunk = arena->newest;
    void *pointer = (unsigned char *)chunk + MEM_ALIGNMENT + chunk->used;
    chunk->used += rounded;
    arena->used_bytes += rounded;
    return pointer; /* mem_alloc has cleared it, and it is handed out only once */
}

/* Counts come from graphs and settings that were checked, so an overflow is a mistake
 * of the program. */
void *arena_alloc_array(struct arena *arena, size_t count, size_t element_bytes)
{
    size_t bytes;
    const bool fits = mem_size_mul(count, element_bytes, &bytes);
    ASSERT(fits);
    return arena_alloc(arena, bytes);
}

char *arena_strdup(struct arena *arena, const char *text)
{
    const size_t length = strlen(text);
    char *copy = arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    return copy;
}

/* Formatted twice: once for the length, once into memory of just that size. */
char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(length >= 0);
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

size_t arena_used_bytes(const struct arena *arena)
{
    return arena->used_bytes;
}
