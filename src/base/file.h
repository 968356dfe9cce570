/*
 * file - whole files, mapped files, files written all at once or not at all, folders.
 *
 * Errors name the path and the reason the system gave.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/base.h"

struct error;

/* A file mapped read-only; bytes is NULL for an empty file. */
struct file_map {
    const unsigned char *bytes;
    size_t length; /* in bytes */
};

MUST_USE bool file_map_open(struct file_map *map, const char *path, struct error *err);

/* The same for an open file, which stays the caller's; `where` is for messages. */
MUST_USE bool file_map_descriptor(struct file_map *map, int fd, size_t length,
                                  const char *where, struct error *err);
void file_map_close(struct file_map *map); /* takes a zeroed one */

/* Tells the system that bytes [offset, offset + length) are not needed again soon. */
void file_map_drop(const struct file_map *map, size_t offset, size_t length);

/* The whole file, NUL-terminated (length excludes it), freed with mem_free; refuses
 * more than max_bytes. */
MUST_USE char *file_read(const char *path, size_t max_bytes, size_t *length,
                         struct error *err);

/*
 * A file read from its start to its end in pieces. file_reader_read gives `length`
 * bytes, and fewer (*n) only where the file ends. file_reader_bytes is its size when it
 * was opened.
 */
struct file_reader;
MUST_USE struct file_reader *file_reader_open(const char *path, struct error *err);
MUST_USE bool file_reader_read(struct file_reader *reader, void *bytes, size_t length,
                               size_t *n, struct error *err);
size_t file_reader_bytes(const struct file_reader *reader);
void file_reader_close(struct file_reader *reader); /* takes NULL */

/* Writes to a temporary name beside `path`, syncs, renames: whole or not at all. Links are
 * followed; what is there and is no regular file (a pipe, a terminal) is written straight
 * into, and never replaced. */
MUST_USE bool file_write_atomic(const char *path, const void *bytes, size_t length,
                                struct error *err);

/*
 * A file written piece by piece under a temporary name; file_writer_commit syncs and
 * renames it to `path`; file_writer_abort (takes NULL) removes it. Both free the
 * writer. Links and what is no regular file: as above.
 */
struct file_writer;
MUST_USE struct file_writer *file_writer_open(const char *path, struct error *err);
MUST_USE bool file_writer_add(struct file_writer *writer, const void *bytes,
                              size_t length, struct error *err);
MUST_USE bool file_writer_commit(struct file_writer *owned_writer, struct error *err);
void file_writer_abort(struct file_writer *owned_writer);

/* Copies bytes; the result is whole or not there. */
MUST_USE bool file_copy(const char *from, const char *to, struct error *err);

bool file_exists(const char *path);
bool file_is_folder(const char *path);
bool file_is_empty_folder(const char *path); /* false too where it cannot be listed */

/* ERROR_RESOURCE when the disk of `folder` has less than `bytes` left for this user; `what`
 * names what is to be written there. */
MUST_USE bool file_check_room(const char *folder, size_t bytes, const char *what,
                              struct error *err);

/* Makes the folder and those above it; fine if it is there. */
MUST_USE bool file_make_folders(const char *path, struct error *err);

/* Removes a folder with everything in it; links are removed, not followed. */
MUST_USE bool file_remove_tree(const char *path, struct error *err);

/* Where programs keep what they can make again: $XDG_CACHE_HOME/lathe, or ~/.cache/lathe.
 * Freed with mem_free; it need not exist yet. Fails where neither variable helps. */
MUST_USE char *file_cache_folder(struct error *err);

/* "folder/name" (no doubled slash), freed with mem_free. */
char *file_join(const char *folder, const char *name);

#endif
