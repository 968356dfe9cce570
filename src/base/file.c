/*
 * file - system calls with retries, whole results and messages that name the path.
 *
 * A new file is written beside its place under a name with ".tmp-" in it; rename puts
 * it there in one step. The folder is synced as well: without that a crash may forget
 * the new name. Pipes, terminals and devices are no files that could be replaced: they
 * are written straight into.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

enum {
    WRITER_BUFFER_BYTES = 256 << 10,
    COPY_BYTES = 1 << 20,
    LARGEST_WRITE_BYTES = 1 << 30, /* Linux writes less than 2 GiB per call */
    MAX_LINKS = 40,                /* one after the other, as Linux has it */
};

struct file_writer {
    int fd;     /* -1 once closed */
    char *path; /* where it will be */
    char *
        temporary_path; /* where it is until commit; NULL: written straight into path */
    unsigned char *buffer; /* [WRITER_BUFFER_BYTES], n_buffered of them waiting */
    size_t n_buffered;
};

/* Opens a regular file for reading; -1 = failed. *length is its size. Folders, pipes
 * and devices are refused: their size says nothing about what can be read. A pipe that
 * nobody writes to would hold a blocking open forever. */
static int open_to_read(const char *path, size_t *length, struct error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        error_set_errno(err, errno, "%s: cannot be opened", path);
        return -1;
    }
    struct stat info;
    if (fstat(fd, &info) != 0) {
        error_set_errno(err, errno, "%s: cannot be examined", path);
        close(fd);
        return -1;
    }
    if (!S_ISREG(info.st_mode)) {
        error_set(err, ERROR_DATA, "%s: is not a regular file", path);
        close(fd);
        return -1;
    }
    *length = (size_t)info.st_size;
    return fd;
}

/* mmap refuses a length of 0, so an empty file has no mapping. */
bool file_map_descriptor(struct file_map *map, int fd, size_t length, const char *where,
                         struct error *err)
{
    *map = (struct file_map){0};
    void *bytes = NULL;
    if (length > 0) {
        bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (bytes == MAP_FAILED) {
        return error_set_errno(err, errno, "%s: cannot be mapped", where);
    }
    map->bytes = bytes;
    map->length = length;
    return true;
}

/* The descriptor is not needed once the file is mapped. */
bool file_map_open(struct file_map *map, const char *path, struct error *err)
{
    *map = (struct file_map){0};
    size_t length;
    const int fd = open_to_read(path, &length, err);
    if (fd < 0) {
        return false;
    }
    const bool is_done = file_map_descriptor(map, fd, length, path, err);
    close(fd);
    return is_done;
}

/* munmap and madvise take a plain pointer, though nothing is written through it. */
static void *plain_pointer(const unsigned char *bytes)
{
    return (void *)(uintptr_t)bytes;
}

void file_map_close(struct file_map *map)
{
    if (map->bytes != NULL) {
        munmap(plain_pointer(map->bytes), map->length);
    }
    *map = (struct file_map){0};
}

void file_map_drop(const struct file_map *map, size_t offset, size_t length)
{
    ASSERT(offset <= map->length && length <= map->length - offset);
    /* Whole pages inside the range only. */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t start = (offset + page - 1) / page * page;
    const size_t end = (offset + length) / page * page;
    if (map->bytes != NULL && start < end) {
        (void)madvise(plain_pointer(map->bytes + start), end - start, MADV_DONTNEED);
    }
}

/*
 * Up to `length` bytes; fewer only at the end of the file. Negative = failed (errno).
 * One read may give less than asked for: at signals, on some network disks, and because
 * Linux moves less than 2 GiB per call.
 */
static ssize_t read_fully(int fd, void *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        const size_t left = length - done;
        const size_t now = left < LARGEST_WRITE_BYTES ? left : LARGEST_WRITE_BYTES;
        const ssize_t n = read(fd, (unsigned char *)bytes + done, now);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* A file that shrinks meanwhile gives what is there; one that grows is cut at the size
 * it had. One byte more than the size is allocated, for the NUL. */
char *file_read(const char *path, size_t max_bytes, size_t *length, struct error *err)
{
    size_t size;
    const int fd = open_to_read(path, &size, err);
    if (fd < 0) {
        return NULL;
    }
    char *bytes = NULL;
    if (size > max_bytes || size == SIZE_MAX) {
        error_set(err, ERROR_DATA, "%s: has %zu bytes, at most %zu are allowed", path,
                  size, max_bytes);
        goto fail;
    }
    bytes = mem_try_alloc(size + 1, path, err);
    if (bytes == NULL) {
        goto fail;
    }
    const ssize_t n = read_fully(fd, bytes, size);
    if (n < 0) {
        error_set_errno(err, errno, "%s: cannot be read", path);
        goto fail;
    }
    bytes[n] = '\0';
    if (length != NULL) {
        *length = (size_t)n;
    }
    close(fd);
    return bytes;

fail:
    mem_free(bytes);
    close(fd);
    return NULL;
}

struct file_reader {
    int fd;
    size_t bytes; /* of the file, when it was opened */
    char *path;   /* for messages */
};

struct file_reader *file_reader_open(const char *path, struct error *err)
{
    size_t bytes;
    const int fd = open_to_read(path, &bytes, err);
    if (fd < 0) {
        return NULL;
    }
    /* Only advice: the system reads further ahead. */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    struct file_reader *reader = mem_alloc(sizeof(*reader));
    *reader = (struct file_reader){.fd = fd, .bytes = bytes, .path = mem_strdup(path)};
    return reader;
}

bool file_reader_read(struct file_reader *reader, void *bytes, size_t length, size_t *n,
                      struct error *err)
{
    const ssize_t got = read_fully(reader->fd, bytes, length);
    if (got < 0) {
        return error_set_errno(err, errno, "%s: cannot be read", reader->path);
    }
    *n = (size_t)got;
    return true;
}

size_t file_reader_bytes(const struct file_reader *reader)
{
    return reader->bytes;
}

void file_reader_close(struct file_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    close(reader->fd);
    mem_free(reader->path);
    mem_free(reader);
}

/* Disks that are full show up here, with the final path in the message: nobody knows
 * the temporary one. */
static bool write_fully(struct file_writer *writer, const void *bytes, size_t length,
                        struct error *err)
{
    size_t done = 0;
    while (done < length) {
        const size_t left = length - done;
        const size_t now = left < LARGEST_WRITE_BYTES ? left : LARGEST_WRITE_BYTES;
        const ssize_t n = write(writer->fd, (const unsigned char *)bytes + done, now);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, errno, "%s: cannot be written", writer->path);
        }
        done += (size_t)n;
    }
    return true;
}

static void writer_free(struct file_writer *owned_writer)
{
    mem_free(owned_writer->buffer);
    mem_free(owned_writer->temporary_path);
    mem_free(owned_writer->path);
    mem_free(owned_writer);
}

/* Whether the path is a name of an open file of a process, as /dev/stdout is. What the
 * name stands for may be anything, but the name is never to be replaced. */
static bool names_open_file(const char *path)
{
    struct stat info;
    return (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0) &&
           lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Where a link leads, read from its own folder; NULL with errno: it cannot be read. */
static char *read_link(const char *path)
{
    char target[PATH_MAX];
    const ssize_t n = readlink(path, target, sizeof(target) - 1);
    if (n < 0) {
        return NULL;
    }
    target[n] = '\0';
    const char *slash = strrchr(path, '/');
    if (target[0] == '/' || slash == NULL) {
        return mem_strdup(target);
    }
    char *folder = mem_strndup(path, (size_t)(slash - path) + 1);
    char *joined = file_join(folder, target);
    mem_free(folder);
    return joined;
}

/* The name that is no link: a link stays and what it leads to is replaced, even where
 * that is not there yet. NULL: failed. */
static char *follow_links(const char *path, struct error *err)
{
    char *name = mem_strdup(path);
    struct stat info;
    for (int n = 0; lstat(name, &info) == 0 && S_ISLNK(info.st_mode); n++) {
        char *next = n < MAX_LINKS ? read_link(name) : NULL;
        if (next == NULL) {
            error_set_errno(err, n < MAX_LINKS ? errno : ELOOP, "%s: cannot be written",
                            path);
            mem_free(name);
            return NULL;
        }
        mem_free(name);
        name = next;
    }
    return name;
}

/* A new file beside writer->path. O_EXCL: the name is ours alone or it is not taken. 0666
 * is narrowed by the umask, so the file is as readable as the user's others. */
static void open_beside(struct file_writer *writer)
{
    const size_t name_bytes = strlen(writer->path) + 64;
    writer->temporary_path = mem_alloc(name_bytes);
    /* Other threads, and other hosts on a shared disk, may be at the same file. */
    for (int attempt = 0; writer->fd < 0 && attempt < 1000; attempt++) {
        snprintf(writer->temporary_path, name_bytes, "%s.tmp-%ld-%d", writer->path,
                 (long)getpid(), attempt);
        writer->fd =
            open(writer->temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd < 0 && errno != EEXIST) {
            break;
        }
    }
}

/* What is there and no regular file is opened as it is: nothing is made, cut or renamed.
 * O_APPEND: what standard output has been sent to stays. */
struct file_writer *file_writer_open(const char *path, struct error *err)
{
    struct stat info;
    const bool is_there = stat(path, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode)) {
        error_set(err, ERROR_DATA, "%s: cannot be created: it is a folder", path);
        return NULL;
    }
    const bool is_straight =
        is_there && (!S_ISREG(info.st_mode) || names_open_file(path));
    char *name = is_straight ? mem_strdup(path) : follow_links(path, err);
    if (name == NULL) {
        return NULL;
    }
    struct file_writer *writer = mem_alloc(sizeof(*writer));
    *writer = (struct file_writer){.fd = -1, .path = name};
    if (is_straight) {
        writer->fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    } else {
        open_beside(writer);
    }
    if (writer->fd < 0) {
        error_set_errno(err, errno, "%s: cannot be %s", path,
                        is_straight ? "opened" : "created");
        writer_free(writer);
        return NULL;
    }
    writer->buffer = mem_alloc(WRITER_BUFFER_BYTES);
    return writer;
}

/* The buffer counts as empty even if writing fails: after a failure the writer is
 * aborted. */
static bool flush_buffer(struct file_writer *writer, struct error *err)
{
    const size_t n = writer->n_buffered;
    writer->n_buffered = 0;
    return write_fully(writer, writer->buffer, n, err);
}

/* Small pieces are gathered, as headers are written field by field; pieces larger than
 * the buffer go straight to the file behind what was gathered. */
bool file_writer_add(struct file_writer *writer, const void *bytes, size_t length,
                     struct error *err)
{
    if (length == 0) {
        return true;
    }
    if (length > WRITER_BUFFER_BYTES - writer->n_buffered &&
        !flush_buffer(writer, err)) {
        return false;
    }
    if (length > WRITER_BUFFER_BYTES) {
        return write_fully(writer, bytes, length, err);
    }
    memcpy(writer->buffer + writer->n_buffered, bytes, length);
    writer->n_buffered += length;
    return true;
}

/* Makes the new name in the folder of `path` last. Not every file system can. */
static void sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL   ? mem_strdup(".")
                   : slash == path ? mem_strdup("/")
                                   : mem_strndup(path, (size_t)(slash - path));
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    mem_free(folder);
}

/* The order makes it safe: contents on disk, then the name, then the folder. Until
 * rename the old file is untouched; after it the new one is whole. */
bool file_writer_commit(struct file_writer *owned_writer, struct error *err)
{
    struct file_writer *writer = owned_writer;
    if (!flush_buffer(writer, err)) {
        goto fail;
    }
    /* Pipes and terminals have no disk. */
    if (writer->temporary_path != NULL && fsync(writer->fd) != 0) {
        error_set_errno(err, errno, "%s: cannot be written to disk", writer->path);
        goto fail;
    }
    const int rc = close(writer->fd);
    writer->fd = -1;
    if (rc != 0) {
        error_set_errno(err, errno, "%s: cannot be closed", writer->path);
        goto fail;
    }
    if (writer->temporary_path != NULL) {
        if (rename(writer->temporary_path, writer->path) != 0) {
            error_set_errno(err, errno, "%s: cannot be put in place", writer->path);
            goto fail;
        }
        sync_folder_of(writer->path);
    }
    writer_free(writer);
    return true;

fail:
    file_writer_abort(writer);
    return false;
}

void file_writer_abort(struct file_writer *owned_writer)
{
    if (owned_writer == NULL) {
        return;
    }
    if (owned_writer->fd >= 0) {
        close(owned_writer->fd);
    }
    if (owned_writer->temporary_path != NULL) {
        unlink(owned_writer->temporary_path);
    }
    writer_free(owned_writer);
}

bool file_write_atomic(const char *path, const void *bytes, size_t length,
                       struct error *err)
{
    struct file_writer *writer = file_writer_open(path, err);
    if (writer == NULL) {
        return false;
    }
    if (!file_writer_add(writer, bytes, length, err)) {
        file_writer_abort(writer);
        return false;
    }
    return file_writer_commit(writer, err);
}

/* In pieces, so that a large model does not have to fit into memory. */
bool file_copy(const char *from, const char *to, struct error *err)
{
    size_t length;
    struct file_writer *writer = NULL;
    void *bytes = NULL;
    const int fd = open_to_read(from, &length, err);
    if (fd < 0) {
        return false;
    }
    writer = file_writer_open(to, err);
    if (writer == NULL) {
        goto fail;
    }
    bytes = mem_alloc(COPY_BYTES);
    while (true) {
        const ssize_t n = read_fully(fd, bytes, COPY_BYTES);
        if (n < 0) {
            error_set_errno(err, errno, "%s: cannot be read", from);
            goto fail;
        }
        if (n == 0) {
            break;
        }
        if (!file_writer_add(writer, bytes, (size_t)n, err)) {
            goto fail;
        }
    }
    mem_free(bytes);
    close(fd);
    return file_writer_commit(writer, err);

fail:
    mem_free(bytes);
    file_writer_abort(writer);
    close(fd);
    return false;
}
