/*
 * row_cache - a header, blocks of examples, and a table of their places.
 *
 *     header | words, entries of block 0 | words, entries of block 1 | ... | places |
 *     faults
 *
 * Blocks are written as they come, so that memory stays flat; the header follows when
 * all is known. Numbers are those of the machine: a cache is not carried to another.
 */
#include "data/row_cache.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"

/* Caches from here on take seconds to check, which is worth a word. */
static const size_t told_from_bytes = (size_t)1 << 30;

static const char magic[8] = {'l', 'a', 't', 'h', 'e', 'r', 'o', 'w'};

struct header {
    char magic[8];
    uint64_t version;
    struct row_cache_key key;
    uint64_t file_bytes; /* of the whole cache file */
    uint64_t n_blocks;
    uint64_t places_at;    /* offset of the places */
    uint64_t faults_bytes; /* behind the places, to the end of the file */
    struct records_counts counts;
    uint64_t hash; /* of header (with hash 0), places and faults */
};

/* Where a block lies. */
struct place {
    uint64_t at; /* offset of its words; the entries follow them */
    uint64_t n_words;
    uint64_t n_entries;
    int64_t first_row;
    int64_t first_line;
    uint64_t hash; /* row_block_hash */
};

static_assert(sizeof(struct row_entry) == 24, "no padding in the file");
static_assert(sizeof(struct header) % 8 == 0, "places are aligned");
static_assert(sizeof(struct place) == 48, "no padding in the file");

struct row_cache {
    struct file_map map;
    const struct header *header; /* in the map */
    const struct place *places;  /* [n_blocks] in the map */
    char *faults;
    bool is_kept;
};

/* --- reading ---------------------------------------------------------------------- */

/* Of header, places and faults; the header's own hash counts as 0. */
static uint64_t hash_tables(const struct header *header, const void *places,
                            const char *faults)
{
    struct header plain = *header;
    plain.hash = 0;
    uint64_t hash = XXH3_64bits(&plain, sizeof(plain));
    hash = XXH3_64bits_withSeed(places, header->n_blocks * sizeof(struct place), hash);
    return XXH3_64bits_withSeed(faults, header->faults_bytes, hash);
}

/* Whether header and places fit the file. Each number is held against the size of the
 * file before it is multiplied or added, so nothing wraps. */
static bool check_tables(const struct row_cache *cache, const struct row_cache_key *key)
{
    const struct header *header = cache->header;
    const uint64_t bytes = cache->map.length;
    if (bytes < sizeof(*header) || memcmp(header->magic, magic, sizeof(magic)) != 0 ||
        header->version != ROW_CACHE_VERSION || header->key.low != key->low ||
        header->key.high != key->high || header->file_bytes != bytes ||
        header->n_blocks > bytes / sizeof(struct place) || header->places_at > bytes ||
        header->places_at % 8 != 0 || header->faults_bytes > bytes ||
        header->places_at + header->n_blocks * sizeof(struct place) +
                header->faults_bytes !=
            bytes) {
        return false;
    }
    const char *faults =
        (const char *)cache->map.bytes + (bytes - header->faults_bytes);
    if (hash_tables(header, cache->places, faults) != header->hash) {
        return false;
    }
    uint64_t n_examples = 0;
    for (uint64_t i = 0; i < header->n_blocks; i++) {
        const struct place *place = &cache->places[i];
        if (place->at % 4 != 0 || place->at > bytes || place->n_words > bytes / 4 ||
            place->n_entries > bytes / sizeof(struct row_entry) ||
            place->at + place->n_words * 4 +
                    place->n_entries * sizeof(struct row_entry) >
                header->places_at) {
            return false;
        }
        n_examples += place->n_entries;
    }
    return (int64_t)n_examples == header->counts.n_examples;
}

/* The places are found before they are checked; a file too short for them is refused by
 * check_tables, which looks at them only behind that. */
static void find_tables(struct row_cache *cache)
{
    const unsigned char *bytes = cache->map.bytes;
    const void *header = bytes;
    cache->header = header;
    cache->places = NULL;
    if (cache->map.length >= sizeof(struct header) &&
        cache->header->places_at <= cache->map.length) {
        const void *places = bytes + cache->header->places_at;
        cache->places = places;
    }
}

struct row_block_view row_cache_block(const struct row_cache *cache, size_t i)
{
    ASSERT(i < cache->header->n_blocks);
    const struct place *place = &cache->places[i];
    const void *words = cache->map.bytes + place->at;
    const void *entries = cache->map.bytes + place->at + place->n_words * 4;
    return (struct row_block_view){.words = words,
                                   .entries = entries,
                                   .n_words = place->n_words,
                                   .n_entries = place->n_entries,
                                   .first_row = place->first_row,
                                   .first_line = place->first_line};
}

struct checking {
    const struct row_cache *cache;
    int64_t most;
    bool *is_good; /* [n_blocks] */
};

/* Hash and bounds of one block; its pages are given back at once, so that checking a
 * large file leaves nothing in memory. */
static void check_block(void *context, int64_t task, int thread)
{
    (void)thread;
    struct checking *checking = context;
    const struct row_cache *cache = checking->cache;
    const struct place *place = &cache->places[task];
    const struct row_block_view view = row_cache_block(cache, (size_t)task);
    checking->is_good[task] =
        row_block_hash(&view) == place->hash && row_block_check(&view, checking->most);
    file_map_drop(&cache->map, place->at,
                  place->n_words * 4 + place->n_entries * sizeof(struct row_entry));
}

static bool check_blocks(const struct row_cache *cache, int64_t most, struct pool *pool)
{
    const size_t n = cache->header->n_blocks;
    struct checking checking = {.cache = cache, .most = most};
    checking.is_good = mem_alloc_array(n + 1, sizeof(*checking.is_good));
    if (pool != NULL && n > 0) {
        pool_run(pool, (int64_t)n, check_block, &checking);
    }
    bool is_good = true;
    for (size_t i = 0; i < n; i++) {
        if (pool == NULL) {
            check_block(&checking, (int64_t)i, 0);
        }
        is_good = is_good && checking.is_good[i];
    }
    mem_free(checking.is_good);
    return is_good;
}

/* The faults get a NUL behind them, which the file has no room for. */
static void read_faults(struct row_cache *cache)
{
    const size_t n = cache->header->faults_bytes;
    cache->faults =
        mem_strndup((const char *)cache->map.bytes + (cache->map.length - n), n);
}

struct row_cache *row_cache_open(const char *folder, const struct row_cache_key *key,
                                 int64_t most, struct pool *pool, struct error *err)
{
    struct row_cache *cache = mem_alloc(sizeof(*cache));
    char *path = row_cache_path(folder, key);
    if (!file_map_open(&cache->map, path, err)) {
        goto fail;
    }
    find_tables(cache);
    if (cache->map.length >= told_from_bytes) {
        char bytes[24];
        log_note("%s: %s of tokenised rows are checked", path,
                 str_format_bytes(bytes, (double)cache->map.length));
    }
    if (!check_tables(cache, key) || !check_blocks(cache, most, pool)) {
        error_set(err, ERROR_DATA, "%s: is damaged", path);
        goto fail;
    }
    read_faults(cache);
    cache->is_kept = true;
    mem_free(path);
    return cache;

fail:
    mem_free(path);
    row_cache_close(cache);
    return NULL;
}

void row_cache_close(struct row_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    file_map_close(&cache->map);
    mem_free(cache->faults);
    mem_free(cache);
}

size_t row_cache_n_blocks(const struct row_cache *cache)
{
    return cache->header->n_blocks;
}

const struct records_counts *row_cache_counts(const struct row_cache *cache)
{
    return &cache->header->counts;
}

bool row_cache_is_kept(const struct row_cache *cache)
{
    return cache->is_kept;
}

const char *row_cache_faults(const struct row_cache *cache)
{
    return cache->faults;
}

void row_cache_drop(const struct row_cache *cache)
{
    file_map_drop(&cache->map, 0, cache->map.length);
}

/* --- writing ---------------------------------------------------------------------- */

struct row_cache_writer {
    int fd;
    char *folder;
    char *path;      /* where it will be, NULL = nowhere */
    char *temporary; /* its name until then, NULL = it has none */
    struct row_cache_key key;
    uint64_t at; /* bytes written */
    struct place *places;
    size_t n_places;
    size_t places_capacity;
};

/* A file without a name where the system can make one: then nothing is left behind when
 * the process is killed. Else one with a name that nobody has. */
static bool open_file(struct row_cache_writer *writer, struct error *err)
{
    writer->fd = open(writer->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (writer->fd >= 0) {
        return true;
    }
    writer->temporary = file_join(writer->folder, "rows.tmp-XXXXXX");
    writer->fd = mkostemp(writer->temporary, O_CLOEXEC);
    if (writer->fd < 0) {
        const int number = errno;
        mem_free(writer->temporary);
        writer->temporary = NULL;
        return error_set_errno(err, number, "%s: no file can be made there",
                               writer->folder);
    }
    if (writer->path == NULL) {
        unlink(writer->temporary);
        mem_free(writer->temporary);
        writer->temporary = NULL;
    }
    return true;
}

struct row_cache_writer *
row_cache_create(const char *folder, const struct row_cache_key *key, struct error *err)
{
    struct row_cache_writer *writer = mem_alloc(sizeof(*writer));
    writer->fd = -1;
    writer->folder = mem_strdup(folder);
    writer->at = sizeof(struct header);
    if (key != NULL) {
        writer->key = *key;
        writer->path = row_cache_path(folder, key);
    }
    if ((key != NULL && !file_make_folders(folder, err)) || !open_file(writer, err)) {
        row_cache_abort(writer);
        return NULL;
    }
    return writer;
}

void row_cache_abort(struct row_cache_writer *owned_writer)
{
    if (owned_writer == NULL) {
        return;
    }
    if (owned_writer->fd >= 0) {
        close(owned_writer->fd);
    }
    if (owned_writer->temporary != NULL) {
        unlink(owned_writer->temporary);
    }
    mem_free(owned_writer->folder);
    mem_free(owned_writer->path);
    mem_free(owned_writer->temporary);
    mem_free(owned_writer->places);
    mem_free(owned_writer);
}

/* All bytes at an offset of the file. A full disk is told with what helps. */
static bool write_at(struct row_cache_writer *writer, const void *bytes, size_t length,
                     uint64_t at, struct error *err)
{
    const char *next = bytes;
    while (length > 0) {
        const size_t now = length < (size_t)1 << 30 ? length : (size_t)1 << 30;
        const ssize_t n = pwrite(writer->fd, next, now, (off_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(
                err, errno,
                "%s: the tokenised rows cannot be written (data.cache "
                "names another folder)",
                writer->folder);
        }
        next += n;
        at += (uint64_t)n;
        length -= (size_t)n;
    }
    return true;
}

bool row_cache_add(struct row_cache_writer *writer, const struct row_block *block,
                   int64_t first_row, int64_t first_line, struct error *err)
{
    const size_t words_bytes = block->n_words * sizeof(*block->words);
    const size_t entries_bytes = block->n_entries * sizeof(*block->entries);
    if (!write_at(writer, block->words, words_bytes, writer->at, err) ||
        !write_at(writer, block->entries, entries_bytes, writer->at + words_bytes,
                  err)) {
        return false;
    }
    writer->places = mem_reserve_one(writer->places, writer->n_places,
                                     &writer->places_capacity, sizeof(*writer->places));
    writer->places[writer->n_places++] = (struct place){.at = writer->at,
                                                        .n_words = block->n_words,
                                                        .n_entries = block->n_entries,
                                                        .first_row = first_row,
                                                        .first_line = first_line,
                                                        .hash = block->hash};
    writer->at += words_bytes + entries_bytes;
    return true;
}

/* Tables and header, behind and before what is there already. */
static bool write_tables(struct row_cache_writer *writer,
                         const struct records_counts *counts, const char *faults,
                         uint64_t *file_bytes, struct error *err)
{
    struct header header = {.version = ROW_CACHE_VERSION,
                            .key = writer->key,
                            .n_blocks = writer->n_places,
                            .places_at =
                                (uint64_t)base_round_up((int64_t)writer->at, 8),
                            .faults_bytes = strlen(faults),
                            .counts = *counts};
    const size_t places_bytes = writer->n_places * sizeof(*writer->places);
    memcpy(header.magic, magic, sizeof(magic));
    header.file_bytes = header.places_at + places_bytes + header.faults_bytes;
    header.hash = hash_tables(&header, writer->places, faults);
    *file_bytes = header.file_bytes;
    return write_at(writer, writer->places, places_bytes, header.places_at, err) &&
           write_at(writer, faults, header.faults_bytes,
                    header.places_at + places_bytes, err) &&
           write_at(writer, &header, sizeof(header), 0, err);
}

/* Gives the file its name. rename puts it there whole, also over one that is damaged or
 * that another process made meanwhile; a file without a name needs one for that first.
 * Nothing is synced: what a crash leaves of it does not pass the checks. */
static bool publish(struct row_cache_writer *writer, struct error *err)
{
    if (writer->temporary == NULL) {
        char name[64];
        char from[64];
        snprintf(name, sizeof(name), "rows.tmp-%ld-%d", (long)getpid(), writer->fd);
        snprintf(from, sizeof(from), "/proc/self/fd/%d", writer->fd);
        writer->temporary = file_join(writer->folder, name);
        unlink(writer->temporary);
        if (linkat(AT_FDCWD, from, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW) !=
            0) {
            return error_set_errno(err, errno, "%s", writer->path);
        }
    }
    if (rename(writer->temporary, writer->path) != 0) {
        return error_set_errno(err, errno, "%s", writer->path);
    }
    mem_free(writer->temporary);
    writer->temporary = NULL;
    return true;
}

struct row_cache *row_cache_finish(struct row_cache_writer *owned_writer,
                                   const struct records_counts *counts,
                                   const char *faults, struct error *err)
{
    struct row_cache_writer *writer = owned_writer;
    uint64_t file_bytes;
    struct row_cache *cache = NULL;
    struct error fault;
    if (!write_tables(writer, counts, faults, &file_bytes, err)) {
        goto fail;
    }
    cache = mem_alloc(sizeof(*cache));
    if (!file_map_descriptor(&cache->map, writer->fd, file_bytes, writer->folder,
                             err)) {
        goto fail;
    }
    find_tables(cache);
    read_faults(cache);
    cache->is_kept = writer->path != NULL && publish(writer, &fault);
    if (writer->path != NULL && !cache->is_kept) {
        log_warning("the tokenised rows are not kept for the next run: %s",
                    fault.message);
    }
    row_cache_abort(writer);
    return cache;

fail:
    row_cache_close(cache);
    row_cache_abort(writer);
    return NULL;
}
