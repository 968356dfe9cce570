/*
 * fuzz_cache - any bytes as a cache of tokenised rows (G9).
 *
 * A cache is guarded by hashes, which no change would get past: they are set right first,
 * as is what says that the file is of this version, key and length. So the bounds behind
 * them are what is tried. The layout is that of data/row_cache.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "data/row_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { ROW_TOKENS = 64 };

/* As in data/row_cache.c; a difference shows, as the seeds would be refused. */
struct header {
    char magic[8];
    uint64_t version;
    struct row_cache_key key;
    uint64_t file_bytes, n_blocks, places_at, faults_bytes;
    struct records_counts counts;
    uint64_t hash;
};

struct place {
    uint64_t at, n_words, n_entries;
    int64_t first_row, first_line;
    uint64_t hash;
};

static const struct row_cache_key key = {.low = 7, .high = 11};
static char folder[64];

static void remove_folder(void)
{
    struct error ignored;
    if (!file_remove_tree(folder, &ignored)) {
        fprintf(stderr, "%s\n", ignored.message);
    }
}

/* Hash of a block, where it lies in the file; the reader has the same bounds. */
static void repair_place(unsigned char *file, size_t length, struct place *place)
{
    const uint64_t entry_bytes = sizeof(struct row_entry);
    if (place->at % 4 != 0 || place->at > length || place->n_words > length / 4 ||
        place->n_entries > length / entry_bytes ||
        place->at + place->n_words * 4 + place->n_entries * entry_bytes > length) {
        return;
    }
    const void *words = file + place->at;
    const void *entries = file + place->at + place->n_words * 4;
    const struct row_block_view view = {.words = words,
                                        .entries = entries,
                                        .n_words = place->n_words,
                                        .n_entries = place->n_entries};
    place->hash = row_block_hash(&view);
}

/* All that a random change would be refused for before it is looked at. */
static void repair(unsigned char *file, size_t length)
{
    struct header header;
    memcpy(&header, file, sizeof(header));
    memcpy(header.magic, "latherow", 8);
    header.version = 1;
    header.key = key;
    header.file_bytes = length;
    header.hash = 0;
    const uint64_t places_bytes = header.n_blocks * sizeof(struct place);
    if (header.n_blocks < length && header.places_at < length &&
        header.places_at + places_bytes <= length) {
        /* Entries that were not repaired may count to anything. */
        uint64_t n_examples = 0;
        for (uint64_t i = 0; i < header.n_blocks; i++) {
            unsigned char *at = file + header.places_at + i * sizeof(struct place);
            struct place place;
            memcpy(&place, at, sizeof(place));
            repair_place(file, length, &place);
            n_examples += (uint64_t)place.n_entries;
            memcpy(at, &place, sizeof(place));
        }
        header.counts.n_examples = (int64_t)n_examples;
        header.faults_bytes = length - header.places_at - places_bytes;
        uint64_t hash = XXH3_64bits(&header, sizeof(header));
        hash = XXH3_64bits_withSeed(file + header.places_at, places_bytes, hash);
        header.hash = XXH3_64bits_withSeed(file + header.places_at + places_bytes,
                                           header.faults_bytes, hash);
    }
    memcpy(file, &header, sizeof(header));
}

/* Every token and document of every example, as the loader reads them. What they are is
 * for the hashes to guarantee. */
static void read_all(const struct row_cache *cache)
{
    int64_t n = 0;
    for (size_t b = 0; b < row_cache_n_blocks(cache); b++) {
        const struct row_block_view view = row_cache_block(cache, b);
        for (size_t i = 0; i < view.n_entries; i++, n++) {
            const struct example example = row_block_example(&view, i);
            ASSERT(example.n >= 1 && example.n <= ROW_TOKENS);
            ASSERT(example.n_documents >= 1 && example.n_documents <= example.n);
            double sum = 0.0;
            for (int32_t t = 0; t < example.n; t++) {
                sum += (double)example.loss_weight[t] + (double)example.ids[t];
            }
            for (int32_t d = 0; d < example.n_documents; d++) {
                sum += (double)example.document_from[d];
            }
            ASSERT(sum <= 0.0 || sum > 0.0 || sum != sum);
        }
    }
    ASSERT(n == row_cache_counts(cache)->n_examples);
    ASSERT(row_cache_faults(cache) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error err = {.message = ""};
    if (folder[0] == '\0') {
        strcpy(folder, "/tmp/lathe-fuzz-cache-XXXXXX");
        ASSERT(mkdtemp(folder) != NULL);
        atexit(remove_folder);
    }
    unsigned char *copy = mem_alloc(length + sizeof(struct header));
    if (length > 0) {
        memcpy(copy, bytes, length);
    }
    if (length >= sizeof(struct header)) {
        repair(copy, length);
    }
    char *path = row_cache_path(folder, &key);
    FILE *file = fopen(path, "wb");
    ASSERT(file != NULL && fwrite(copy, 1, length, file) == length);
    ASSERT(fclose(file) == 0);
    struct row_cache *cache = row_cache_open(folder, &key, ROW_TOKENS, NULL, &err);
    if (cache == NULL) {
        ASSERT(err.message[0] != '\0');
    } else {
        read_all(cache);
    }
    row_cache_close(cache);
    mem_free(path);
    mem_free(copy);
    return 0;
}
