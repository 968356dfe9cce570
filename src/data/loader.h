/*
 * loader - batches in the order of the run, prepared one ahead in the background.
 *
 *     struct loader *loader = loader_create(&records, &options, err);
 *     const struct batch *batch;
 *     while ((batch = loader_next(loader)) != NULL) ...
 *     loader_destroy(loader);
 *
 * Epoch e is the packing plan of (seed, e); a step takes the next step_rows rows of it,
 * or what is left of the epoch: the rows that are missing then are padding of weight 0,
 * and the next epoch begins with a step of its own. A step's rows go to micro-batches
 * and ranks in order: batch m of rank r holds rows (m * n_ranks + r) * rows and
 * following of the step. So the order of the examples does not depend on the layout.
 *
 * The position of a run is one number, the rows (padding not counted) of all epochs
 * taken so far; it stays valid when rows, ranks or step_rows change.
 *
 * One consumer thread per loader. The records are borrowed and must not change.
 */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "base/base.h"
#include "data/batch.h"
#include "data/pack.h"

struct error;
struct loader;
struct records;

struct loader_options {
    struct pack_options pack;
    int32_t step_rows;       /* rows of an optimizer step, over all ranks */
    int32_t rows;            /* B: rows of one batch of one rank */
    int32_t n_ranks;         /* ranks that share the rows of a step */
    int32_t rank;            /* this one, from 0 */
    int32_t target_capacity; /* C, as loader_measure says */
    int64_t n_epochs;        /* loader_next ends after these; 0 = never */
    int64_t n_steps;         /* or after these, if that is earlier; 0 = never */
    int32_t pad_id;
};

struct loader_summary {
    int64_t n_steps;
    int64_t n_epochs;        /* begun */
    int64_t n_rows;          /* rows taken, without the missing ones */
    int64_t n_real_tokens;   /* tokens in them */
    int64_t n_targets;       /* targets in them */
    int32_t target_capacity; /* C: largest count of any batch of any rank, in 64s */
};

/*
 * Walks the plans of a whole run without filling a batch: `epochs` epochs or `steps`
 * steps, whichever ends first; one of the two may be 0, no end. Uses of *options: pack,
 * step_rows, rows, n_ranks. A loader goes on beyond what was measured, also ahead of
 * its reader, unless it has the same end.
 */
struct loader_summary loader_measure(const struct records *records,
                                     const struct loader_options *options,
                                     int64_t epochs, int64_t steps);

/* Starts at position 0. Fails where there is no example or no thread. */
MUST_USE struct loader *loader_create(const struct records *records,
                                      const struct loader_options *options,
                                      struct error *err);
void loader_destroy(struct loader *loader); /* takes NULL */

/* The next batch, valid until the next call on this loader; NULL after the last epoch
 * or step. Waits for the background thread where it must; allocates nothing. */
const struct batch *loader_next(struct loader *loader);

/* Goes on at this position: the next batch is the first of the step that begins
 * there. */
MUST_USE bool loader_seek(struct loader *loader, int64_t position, struct error *err);

#endif
