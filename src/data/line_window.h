/*
 * line_window - a file of lines in pieces of whole lines, with flat memory.
 *
 *     struct line_window *window = line_window_open("train.jsonl", err);
 *     const char *text;
 *     size_t length;
 *     while (line_window_next(window, 1 << 20, &text, &length, err) && length > 0) ...
 *     line_window_close(window);
 *
 * Read, not mapped: a file that somebody cuts meanwhile is then an error and not a bus
 * error. A byte-order mark in front of the first line is left out.
 */
#ifndef DATA_LINE_WINDOW_H
#define DATA_LINE_WINDOW_H

#include "base/base.h"

struct error;
struct line_window;

/* Of one line; a longer one is an error that gives its number. */
enum { LINE_WINDOW_MAX_BYTES = 1 << 30 };

/* XXH3 of some bytes, 128 bits. */
struct line_hash {
    uint64_t low, high;
};

MUST_USE struct line_window *line_window_open(const char *path, struct error *err);

/* The same over borrowed bytes; `where` names them in messages. */
struct line_window *line_window_view(const char *text, size_t length,
                                     const char *where);
void line_window_close(struct line_window *window); /* takes NULL */

/* The next lines, about `wanted` bytes of them or one line that is longer; valid until
 * the next call. Each ends with its newline; the last one of the file may have none.
 * *length 0: the end. */
MUST_USE bool line_window_next(struct line_window *window, size_t wanted,
                               const char **text, size_t *length, struct error *err);

/* Gives the last `length` bytes of the present window back; they begin a line. */
void line_window_return(struct line_window *window, size_t length);

/* Whether the present window goes to the end of the file. */
bool line_window_is_last(const struct line_window *window);

/* Bytes of the whole file, as it was when it was opened. */
size_t line_window_bytes(const struct line_window *window);

/* Of all that was read; after the last window that is the whole file. */
struct line_hash line_window_hash(const struct line_window *window);

/* The same for a file that nobody reads otherwise. */
MUST_USE bool line_window_hash_file(const char *path, struct line_hash *hash,
                                    struct error *err);

#endif
