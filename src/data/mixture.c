/*
 * mixture - whole passes over a file, and a window that moves over a permutation of it.
 */
#include "data/mixture.h"

#include <math.h>

#include "base/mem.h"
#include "base/random.h"
#include "data/records.h"

/* The whole and the broken part of a source's weight in one epoch. */
struct share {
    int64_t whole; /* passes over all examples */
    int64_t from; /* then the places from .. to - 1 of the permutation, which goes on */
    int64_t to;   /* ... from its start */
};

/*
 * With f the broken part of the weight, epoch e ends at place ceil((e + 1) f n), counted
 * over all epochs. So each epoch takes f n examples, to one more or less, and none comes
 * again before all others have.
 */
static struct share share_of(const struct records_source *source, int64_t epoch)
{
    const double whole = floor(source->weight);
    const double part = (source->weight - whole) * (double)source->n;
    return (struct share){.whole = (int64_t)whole,
                          .from = (int64_t)ceil((double)epoch * part),
                          .to = (int64_t)ceil((double)(epoch + 1) * part)};
}

/* Marks the examples of the broken part. The permutation is the same in all epochs:
 * those of different sources are different streams. */
static void mark_part(const struct records_source *source, int32_t number,
                      const struct share *share, uint64_t seed, bool *is_taken)
{
    const int64_t n = (int64_t)source->n;
    int32_t *order = mem_alloc_array(source->n + 1, sizeof(*order));
    random_permutation(seed, RANDOM_MIXTURE, (uint64_t)number, n, order);
    for (int64_t i = share->from; i < share->to; i++) {
        is_taken[order[i % n]] = true;
    }
    mem_free(order);
}

/* Appends what the epoch takes of one source. */
static void take_source(const struct records *records, int32_t number, uint64_t seed,
                        int64_t epoch, int32_t *taken, int64_t *n_taken)
{
    const struct records_source *source = &records->sources[number];
    const struct share share = share_of(source, epoch);
    bool *is_taken = mem_alloc_array(source->n + 1, sizeof(*is_taken));
    if (share.to > share.from) {
        mark_part(source, number, &share, seed, is_taken);
    }
    for (int64_t pass = 0; pass <= share.whole; pass++) {
        for (size_t i = 0; i < source->n; i++) {
            if (pass < share.whole || is_taken[i]) {
                taken[(*n_taken)++] = (int32_t)(source->first + i);
            }
        }
    }
    mem_free(is_taken);
}

/* A small share of few examples may come to none in some epochs; a loader needs one to
 * go on, so such an epoch takes the next example of all. */
int32_t *mixture_take(const struct records *records, uint64_t seed, int64_t epoch,
                      int64_t *n)
{
    bool is_plain = true;
    int64_t most = 1;
    for (int32_t i = 0; i < records->n_sources; i++) {
        const struct records_source *source = &records->sources[i];
        is_plain = is_plain && source->weight == 1.0;
        most += (int64_t)ceil(source->weight + 1.0) * (int64_t)source->n;
    }
    *n = (int64_t)records->n;
    if (is_plain || records->n == 0) {
        return NULL;
    }
    int32_t *taken = mem_alloc_array((size_t)most, sizeof(*taken));
    *n = 0;
    for (int32_t i = 0; i < records->n_sources; i++) {
        take_source(records, i, seed, epoch, taken, n);
    }
    if (*n == 0) {
        taken[(*n)++] = (int32_t)(epoch % (int64_t)records->n);
    }
    return taken;
}
