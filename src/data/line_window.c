/*
 * line_window - a buffer that is filled up to the last whole line.
 *
 *     buffer  | given out before | rest of the last line | newly read ... |
 *             0                  from                                     end
 *
 * The rest moves to the front before more is read. A line that fills the buffer makes it
 * grow, to twice its size each time, so that a line of any length costs linear time.
 */
#include "data/line_window.h"

#include <string.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

enum { HASH_BYTES = 1 << 20 }; /* read at once to hash a file */

struct line_window {
    struct file_reader *reader; /* NULL for borrowed bytes */
    char *buffer;               /* [capacity] */
    size_t capacity;
    size_t from; /* start of what was not given out */
    size_t end;  /* of what was read */
    bool is_all; /* the file has no more than that */
    bool has_begun;
    const char *text; /* borrowed bytes, [length] */
    size_t length;
    char *where;
    int64_t n_lines; /* given out, for messages */
    XXH3_state_t *hash;
};

static struct line_window *create(const char *where)
{
    struct line_window *window = mem_alloc(sizeof(*window));
    window->where = mem_strdup(where);
    window->hash = XXH3_createState();
    ASSERT(window->hash != NULL);
    XXH3_128bits_reset(window->hash);
    return window;
}

struct line_window *line_window_open(const char *path, struct error *err)
{
    struct file_reader *reader = file_reader_open(path, err);
    if (reader == NULL) {
        return NULL;
    }
    struct line_window *window = create(path);
    window->reader = reader;
    return window;
}

/* Borrowed bytes are hashed at once, those of a file as they come. */
struct line_window *line_window_view(const char *text, size_t length, const char *where)
{
    struct line_window *window = create(where);
    window->text = text;
    window->length = length;
    XXH3_128bits_update(window->hash, text, length);
    return window;
}

void line_window_close(struct line_window *window)
{
    if (window == NULL) {
        return;
    }
    file_reader_close(window->reader);
    XXH3_freeState(window->hash);
    mem_free(window->buffer);
    mem_free(window->where);
    mem_free(window);
}

size_t line_window_bytes(const struct line_window *window)
{
    return window->reader != NULL ? file_reader_bytes(window->reader) : window->length;
}

struct line_hash line_window_hash(const struct line_window *window)
{
    const XXH128_hash_t hash = XXH3_128bits_digest(window->hash);
    return (struct line_hash){.low = hash.low64, .high = hash.high64};
}

/* Makes room for `least` bytes from the start of the rest on. */
static bool make_room(struct line_window *window, size_t least, struct error *err)
{
    const size_t rest = window->end - window->from;
    char *larger = window->buffer;
    if (least > window->capacity) {
        larger = mem_try_alloc(least, window->where, err);
        if (larger == NULL) {
            return false;
        }
    }
    if (rest > 0) {
        memmove(larger, window->buffer + window->from, rest);
    }
    if (larger != window->buffer) {
        mem_free(window->buffer);
        window->buffer = larger;
        window->capacity = least;
    }
    window->from = 0;
    window->end = rest;
    return true;
}

/* Reads until the buffer is full or the file ends. */
static bool fill(struct line_window *window, struct error *err)
{
    const size_t room = window->capacity - window->end;
    size_t n = 0;
    if (!file_reader_read(window->reader, window->buffer + window->end, room, &n,
                          err)) {
        return false;
    }
    XXH3_128bits_update(window->hash, window->buffer + window->end, n);
    window->end += n;
    window->is_all = n < room;
    return true;
}

/* Bytes up to the last newline of text[0 .. length), that included; 0 = there is
 * none. */
static size_t whole_lines(const char *text, size_t length)
{
    const char *last = length == 0 ? NULL : memrchr(text, '\n', length);
    return last == NULL ? 0 : (size_t)(last - text) + 1;
}

static int64_t count_lines(const char *text, size_t length)
{
    int64_t n = 0;
    const char *end = text + length;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(end - at))) != NULL;
         at++) {
        n++;
    }
    return n;
}

/* From the file: grows until the buffer holds a whole line. */
static bool next_of_file(struct line_window *window, size_t wanted, const char **text,
                         size_t *length, struct error *err)
{
    size_t least = wanted;
    for (;;) {
        if (!window->is_all && (!make_room(window, least, err) || !fill(window, err))) {
            return false;
        }
        const size_t held = window->end - window->from;
        const char *start = window->buffer + window->from;
        *length = window->is_all ? held : whole_lines(start, held);
        if (*length > 0 || held == 0) {
            *text = start;
            window->from += *length;
            return true;
        }
        if (held >= LINE_WINDOW_MAX_BYTES) {
            return error_set(err, ERROR_DATA,
                             "%s:%lld: a line of more than %d bytes: one JSON object a "
                             "line is expected",
                             window->where, (long long)window->n_lines + 1,
                             LINE_WINDOW_MAX_BYTES);
        }
        least = 2 * (held > wanted ? held : wanted);
    }
}

/* From borrowed bytes: up to the end of the line in which `wanted` bytes end. */
static void next_of_text(struct line_window *window, size_t wanted, const char **text,
                         size_t *length)
{
    const size_t left = window->length - window->from;
    *text = window->text + window->from;
    *length = left;
    if (left > wanted) {
        const char *newline = memchr(*text + wanted, '\n', left - wanted);
        *length = newline == NULL ? left : (size_t)(newline - *text) + 1;
    }
    window->from += *length;
}

/* Some editors put a byte-order mark in front of UTF-8. A file of nothing else has no
 * lines. */
bool line_window_next(struct line_window *window, size_t wanted, const char **text,
                      size_t *length, struct error *err)
{
    ASSERT(wanted > 0);
    if (window->reader == NULL) {
        next_of_text(window, wanted, text, length);
    } else if (!next_of_file(window, wanted, text, length, err)) {
        return false;
    }
    if (!window->has_begun && *length >= 3 && memcmp(*text, "\xEF\xBB\xBF", 3) == 0) {
        *text += 3;
        *length -= 3;
    }
    window->has_begun = true;
    window->n_lines += count_lines(*text, *length);
    return true;
}

void line_window_return(struct line_window *window, size_t length)
{
    ASSERT(length <= window->from);
    window->from -= length;
    const char *all = window->reader != NULL ? window->buffer : window->text;
    window->n_lines -= count_lines(all + window->from, length);
}

/* A file whose end was met by the byte is known to end only at the next window. */
bool line_window_is_last(const struct line_window *window)
{
    return window->reader != NULL ? window->is_all && window->from == window->end
                                  : window->from == window->length;
}

bool line_window_hash_file(const char *path, struct line_hash *hash, struct error *err)
{
    struct line_window *window = line_window_open(path, err);
    if (window == NULL) {
        return false;
    }
    window->buffer = mem_alloc(HASH_BYTES);
    window->capacity = HASH_BYTES;
    bool is_done = true;
    while (is_done && !window->is_all) {
        window->end = 0;
        is_done = fill(window, err);
    }
    *hash = line_window_hash(window);
    line_window_close(window);
    return is_done;
}
