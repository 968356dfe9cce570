/*
 * replay - runs a fuzzer's seeds, and small changes to them, as an ordinary test.
 *
 * Linked with one file of fuzz/ in place of libFuzzer, so that every compiler and every
 * sanitizer run sees the seeds. Seeds lie in fuzz/seeds/NAME, NAME being this program's.
 * Each is given as it is, cut off at places spread over its length, and with some bytes
 * changed; the changes depend on nothing but the seed's number, so a failure comes back.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"

enum { N_CUTS = 64, N_CHANGES = 200, SEED_MOST_BYTES = 8 << 20, SHARED_FROM = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* A copy of exactly the right size: reading one byte further is then seen. */
static void give(const unsigned char *bytes, size_t length)
{
    unsigned char *copy = malloc(length > 0 ? length : 1);
    ASSERT(copy != NULL);
    if (length > 0) {
        memcpy(copy, bytes, length);
    }
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
}

/* One to four bytes replaced: by anything, by a border value, or by a neighbour. */
static void change(unsigned char *bytes, size_t length, uint64_t seed, uint64_t round)
{
    static const unsigned char borders[] = {0x00, 0x01, 0x7F, 0x80,
                                            0xFF, '"',  '{',  '['};
    uint32_t words[4];
    random_block(seed, RANDOM_TEST, 0, round, words);
    const uint32_t n_places = 1 + words[0] % 4;
    for (uint32_t i = 0; i < n_places; i++) {
        uint32_t place[4];
        random_block(seed, RANDOM_TEST, 1 + i, round, place);
        /* Half of the places in the first 4 KiB, where headers are. */
        const size_t range = place[0] % 2 == 0 && length > 4096 ? 4096 : length;
        const size_t at = place[1] % range;
        switch (place[2] % 3) {
        case 0:
            bytes[at] = (unsigned char)place[3];
            break;
        case 1:
            bytes[at] = borders[place[3] % ARRAY_LENGTH(borders)];
            break;
        default:
            bytes[at] = (unsigned char)(bytes[at] + (place[3] % 2 == 0 ? 1 : 255));
            break;
        }
    }
}

/* The more seeds there are, the less is tried with each: the whole takes about as long. */
static void replay(const unsigned char *seed, size_t length, uint64_t number,
                   size_t n_seeds)
{
    const size_t share = n_seeds > SHARED_FROM ? n_seeds / SHARED_FROM : 1;
    const size_t n_cuts = N_CUTS / share;
    give(seed, length);
    for (size_t i = 0; i < n_cuts && length > 0; i++) {
        /* Large seeds are cut mostly near their start. */
        const size_t range = i % 2 == 0 && length > 4096 ? 4096 : length;
        give(seed, range * i / n_cuts);
    }
    unsigned char *changed = mem_alloc(length);
    const uint64_t most = N_CHANGES / share;
    const uint64_t n_changes = length == 0 ? 0 : length > 100000 ? most / 10 : most;
    for (uint64_t round = 0; round < n_changes; round++) {
        memcpy(changed, seed, length);
        change(changed, length, number, round);
        give(changed, length);
    }
    mem_free(changed);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash == NULL ? argv[0] : slash + 1;
    char folder[256];
    snprintf(folder, sizeof(folder), "%s/%s", argc > 1 ? argv[1] : "fuzz/seeds", name);

    give((const unsigned char *)"", 0);
    struct dirent **entries;
    const int n = scandir(folder, &entries, is_visible, alphasort);
    if (n <= 0) {
        printf("not ok %s: no seeds in %s\n", name, folder);
        return 1;
    }
    bool done = true;
    for (int i = 0; i < n; i++) {
        struct error err;
        size_t length;
        char *path = file_join(folder, entries[i]->d_name);
        char *seed = file_read(path, SEED_MOST_BYTES, &length, &err);
        if (seed == NULL) {
            printf("not ok %s\n", err.message);
            done = false;
        } else {
            replay((const unsigned char *)seed, length, (uint64_t)i, (size_t)n);
        }
        mem_free(seed);
        mem_free(path);
        free(entries[i]);
    }
    free(entries);
    printf("%s %s: %d seeds\n", done ? "ok" : "not ok", name, n);
    return done ? 0 : 1;
}
