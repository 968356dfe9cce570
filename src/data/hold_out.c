/*
 * hold_out - the first rows of a seeded permutation of each file.
 */
#include "data/hold_out.h"

#include <math.h>

#include "base/mem.h"
#include "base/random.h"
#include "data/records.h"

int64_t hold_out_limit(int64_t max_rows, int32_t i, int32_t n)
{
    if (max_rows == 0) {
        return 0;
    }
    const int64_t limit = max_rows / n + (i < max_rows % n);
    return limit == 0 ? -1 : limit;
}

/* The rows of a source: row_of[k] = which of its rows example first + k belongs to,
 * counted without those that gave no example. Returns how many there are. */
static int32_t number_rows(const struct records *records,
                           const struct records_source *source, int32_t *row_of)
{
    int32_t n = 0;
    int64_t before = -1;
    for (size_t k = 0; k < source->n; k++) {
        const int64_t row = records_example(records, source->first + k).source_row;
        n += row != before;
        before = row;
        row_of[k] = n - 1;
    }
    return n;
}

/* Marks the held-out examples of one source. */
static void hold_out_source(const struct records *records, int32_t number, double share,
                            uint64_t seed, int64_t limit, bool *is_held)
{
    const struct records_source *source = &records->sources[number];
    int32_t *row_of = mem_alloc_array(source->n + 1, sizeof(*row_of));
    const int32_t n_rows = number_rows(records, source, row_of);
    int32_t *order = mem_alloc_array((size_t)n_rows + 1, sizeof(*order));
    bool *is_row_held = mem_alloc_array((size_t)n_rows + 1, sizeof(*is_row_held));
    random_permutation(seed, RANDOM_HOLD_OUT, (uint64_t)number, n_rows, order);
    int64_t n_held = llround(share * (double)n_rows);
    n_held = base_min(base_max(n_held, 1), n_rows - 1);
    if (limit != 0) {
        n_held = base_min(n_held, base_max(limit, 0));
    }
    for (int64_t i = 0; i < n_held; i++) {
        is_row_held[order[i]] = true;
    }
    for (size_t k = 0; k < source->n; k++) {
        is_held[source->first + k] = is_row_held[row_of[k]];
    }
    mem_free(row_of);
    mem_free(order);
    mem_free(is_row_held);
}

void hold_out_split(struct records *records, double share, uint64_t seed,
                    int64_t max_rows, struct records *held)
{
    bool *is_held = mem_alloc_array(records->n + 1, sizeof(*is_held));
    for (int32_t i = 0; i < records->n_sources; i++) {
        hold_out_source(records, i, share, seed,
                        hold_out_limit(max_rows, i, records->n_sources), is_held);
    }
    records_drop(records);
    *held = records_share(records);
    records_choose(held, is_held, true);
    for (int32_t i = 0; i < held->n_sources; i++) {
        held->sources[i].weight = 1.0; /* weights are for training */
    }
    records_choose(records, is_held, false);
    mem_free(is_held);
}
