/*
 * loader - a ring of batches between one background thread and the trainer.
 *
 * The thread walks the plans and fills free batches; the trainer takes filled ones in
 * the same order and gives the one before back. One mutex guards the counts; a batch
 * belongs to one side at a time, so its arrays need none.
 */
#include "data/loader.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/mixture.h"
#include "data/records.h"

enum {
    N_BATCHES = 3,      /* one with the trainer, two ready or being filled */
    CAPACITY_STEP = 64, /* target capacities are multiples of this */

    /* Examples that are read before their pages are given back. A page that is touched
     * may bring 15 more along, so they stand for 16 MiB at most. */
    EXAMPLES_PER_DROP = 256,
};

/* Where a walk over the epochs stands. */
struct walk {
    const struct records *records;
    const struct loader_options *options;
    struct pack_plan *plan;
    int64_t epoch;
    int64_t rows_before;  /* rows of the epochs before this one */
    int64_t steps_before; /* steps of them */
    int64_t step_from;    /* row of the epoch where the step begins */
    int32_t micro;        /* batch of the step */
    int64_t n_read;       /* examples since pages were given back */
};

struct loader {
    const struct records *records;
    struct loader_options options;
    struct batch *batches[N_BATCHES];
    struct walk walk; /* the thread's, while it runs */
    pthread_t thread;
    bool is_running;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    int64_t n_filled; /* batches filled since the start */
    int64_t n_taken;  /* taken by loader_next */
    int64_t n_back;   /* given back */
    bool is_ended;    /* no batch follows the filled ones */
    bool is_stopping;
};

/* --- walking ---------------------------------------------------------------------- */

/* The plan of the epoch, over the examples that it takes. */
static void make_plan(struct walk *walk)
{
    const struct records *records = walk->records;
    const struct pack_options *pack = &walk->options->pack;
    int64_t n = (int64_t)records->n;
    int32_t *taken = mixture_take(records, pack->seed, walk->epoch, &n);
    walk->plan = pack_plan_create(records->lengths, taken, n, pack, walk->epoch);
    mem_free(taken);
}

/* At the start of epoch 0. */
static void walk_open(struct walk *walk, const struct records *records,
                      const struct loader_options *options)
{
    *walk = (struct walk){.records = records, .options = options};
    make_plan(walk);
}

static void walk_close(struct walk *walk)
{
    pack_plan_destroy(walk->plan);
    *walk = (struct walk){0};
}

/* The plan of the next epoch takes the place of this one. Only one plan is kept: it is
 * a pure function of data, seed and epoch and can be made again. */
static void next_epoch(struct walk *walk)
{
    walk->rows_before += walk->plan->n_rows;
    walk->steps_before += base_div_up(walk->plan->n_rows, walk->options->step_rows);
    walk->epoch++;
    walk->step_from = 0;
    walk->micro = 0;
    pack_plan_destroy(walk->plan);
    make_plan(walk);
}

/* Rows of the current step, without the missing ones. At least 1, since next_step
 * leaves a finished epoch behind. */
static int64_t rows_of_step(const struct walk *walk)
{
    return base_min(walk->options->step_rows, walk->plan->n_rows - walk->step_from);
}

/* Batches of each rank in the current step; a short last step has fewer. The same count
 * on every rank, also where the last batches of some ranks are all padding: ranks meet
 * in collectives and must run equally often. */
static int32_t batches_of_step(const struct walk *walk)
{
    return (int32_t)base_div_up(rows_of_step(walk),
                                (int64_t)walk->options->rows * walk->options->n_ranks);
}

/* The step after this one, in the next epoch where this one is through. */
static void next_step(struct walk *walk)
{
    walk->step_from += rows_of_step(walk);
    walk->micro = 0;
    if (walk->step_from >= walk->plan->n_rows) {
        next_epoch(walk);
    }
}

/* Whether the run ends before the current step: either end may be 0, no end. */
static bool has_passed(const struct walk *walk, int64_t epochs, int64_t steps)
{
    const int64_t step =
        walk->steps_before + walk->step_from / walk->options->step_rows;
    return (epochs > 0 && walk->epoch >= epochs) || (steps > 0 && step >= steps);
}

/* Targets of all examples in a row of the plan. Counted when the rows were read, with
 * first tokens of documents left out, so it is what batch_add will enter. */
static int64_t targets_of_row(const struct walk *walk, int64_t row)
{
    int64_t n = 0;
    for (int64_t i = walk->plan->row_from[row]; i < walk->plan->row_from[row + 1];
         i++) {
        n += walk->records->target_counts[walk->plan->examples[i]];
    }
    return n;
}

/* Adds up one step; a batch of a rank is `rows` consecutive rows of it. Batches of
 * different ranks are measured alike, because all ranks run the same graph and so need
 * one capacity. */
static void measure_step(const struct walk *walk, struct loader_summary *summary)
{
    int64_t in_batch = 0;
    for (int64_t i = 0; i < rows_of_step(walk); i++) {
        const int64_t row = walk->step_from + i;
        const int64_t n = targets_of_row(walk, row);
        in_batch = i % walk->options->rows == 0 ? n : in_batch + n;
        summary->n_targets += n;
        summary->target_capacity =
            (int32_t)base_max(summary->target_capacity, in_batch);
        for (int64_t k = walk->plan->row_from[row]; k < walk->plan->row_from[row + 1];
             k++) {
            summary->n_real_tokens += walk->records->lengths[walk->plan->examples[k]];
        }
    }
    summary->n_rows += rows_of_step(walk);
    summary->n_steps++;
    summary->n_epochs = walk->epoch + 1;
}

/* The capacity is rounded up, to at least one CAPACITY_STEP, so that small changes of
 * the data keep the shapes of the graph. */
struct loader_summary loader_measure(const struct records *records,
                                     const struct loader_options *options,
                                     int64_t epochs, int64_t steps)
{
    ASSERT(epochs > 0 || steps > 0);
    struct loader_summary summary = {0};
    struct walk walk;
    if (records->n == 0) {
        return summary;
    }
    walk_open(&walk, records, options);
    while (!has_passed(&walk, epochs, steps)) {
        measure_step(&walk, &summary);
        next_step(&walk);
    }
    walk_close(&walk);
    summary.target_capacity =
        (int32_t)base_round_up(base_max(summary.target_capacity, 1), CAPACITY_STEP);
    return summary;
}

/* --- the thread ------------------------------------------------------------------- */

/* The current batch of the walk, for this rank. first = (micro * n_ranks + rank) *
 * rows, the first row of this batch within the step; rows beyond the end of the step
 * stay padding. */
static void fill(struct walk *walk, struct batch *batch)
{
    const struct loader_options *options = walk->options;
    const int64_t here = rows_of_step(walk);
    const int64_t first =
        ((int64_t)walk->micro * options->n_ranks + options->rank) * options->rows;
    batch_clear(batch, options->pad_id);
    for (int32_t b = 0; b < options->rows && first + b < here; b++) {
        const int64_t row = walk->step_from + first + b;
        for (int64_t i = walk->plan->row_from[row]; i < walk->plan->row_from[row + 1];
             i++) {
            const struct example example =
                records_example(walk->records, (size_t)walk->plan->examples[i]);
            batch_add(batch, b, &example);
        }
    }
    walk->n_read += batch->n_examples;
    if (walk->n_read >= EXAMPLES_PER_DROP) {
        records_drop(walk->records);
        walk->n_read = 0;
    }
    batch->position_from = walk->rows_before + walk->step_from;
    batch->position_to = batch->position_from + here;
    batch->micro = walk->micro;
    batch->n_micro = batches_of_step(walk);
    batch->epoch = walk->epoch;
    batch->epoch_after = (double)walk->epoch +
                         (double)(walk->step_from + here) / (double)walk->plan->n_rows;
}

/* Waits for a batch to fill; NULL when the thread is to end. Batch number n lives in
 * slot n mod N_BATCHES, so the slot is free once batch n - N_BATCHES was given back. */
static struct batch *wait_for_free(struct loader *loader)
{
    struct batch *batch = NULL;
    pthread_mutex_lock(&loader->mutex);
    while (!loader->is_stopping && loader->n_filled - loader->n_back >= N_BATCHES) {
        pthread_cond_wait(&loader->changed, &loader->mutex);
    }
    if (!loader->is_stopping) {
        batch = loader->batches[loader->n_filled % N_BATCHES];
    }
    pthread_mutex_unlock(&loader->mutex);
    return batch;
}

/* Whether the whole run was walked. Only the thread asks this: the walk is its own. The
 * thread is ahead of the trainer, so it must not lean on the trainer to stop: batches
 * beyond the end may have more targets than were measured. */
static bool has_ended(const struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    return has_passed(&loader->walk, options->n_epochs, options->n_steps);
}

/* Tells the trainer that one more batch is there, or (is_filled false) that none
 * follows. Broadcast rather than signal, as both sides wait on the one condition. */
static void announce(struct loader *loader, bool is_filled)
{
    pthread_mutex_lock(&loader->mutex);
    loader->n_filled += is_filled;
    loader->is_ended = !is_filled;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->mutex);
}

/* Fills batch after batch until the run ends or the trainer stops it. What a batch
 * holds depends on the walk alone, so timing between the threads cannot change a
 * run. */
static void *run_thread(void *context)
{
    struct loader *loader = context;
    struct walk *walk = &loader->walk;
    struct batch *batch;
    while (!has_ended(loader)) {
        batch = wait_for_free(loader);
        if (batch == NULL) {
            return NULL;
        }
        fill(walk, batch);
        announce(loader, true);
        if (++walk->micro >= batches_of_step(walk)) {
            next_step(walk);
        }
    }
    announce(loader, false);
    return NULL;
}

/* Signals are for the main thread. So all are blocked while the thread is made, because
 * it inherits the mask. */
static bool start_thread(struct loader *loader, struct error *err)
{
    sigset_t all;
    sigset_t before;
    loader->n_filled = 0;
    loader->n_taken = 0;
    loader->n_back = 0;
    loader->is_ended = false;
    loader->is_stopping = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int fault = pthread_create(&loader->thread, NULL, run_thread, loader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (fault != 0) {
        return error_set(err, ERROR_FAILED, "the loader thread does not start: %s",
                         strerror(fault));
    }
    loader->is_running = true;
    return true;
}

/* Ends the thread, wherever it stands. After the join the walk belongs to the caller
 * again. */
static void stop_thread(struct loader *loader)
{
    if (!loader->is_running) {
        return;
    }
    pthread_mutex_lock(&loader->mutex);
    loader->is_stopping = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->mutex);
    pthread_join(loader->thread, NULL);
    loader->is_running = false;
}

/* --- the trainer's side ----------------------------------------------------------- */

/* The thread starts here and fills its first batches before they are asked for. */
struct loader *loader_create(const struct records *records,
                             const struct loader_options *options, struct error *err)
{
    ASSERT(options->rows > 0 && options->step_rows > 0 && options->n_ranks > 0);
    ASSERT(options->rank >= 0 && options->rank < options->n_ranks);
    if (records->n == 0) {
        error_set(err, ERROR_DATA,
                  "no example has a token that carries loss (%lld rows read, %lld "
                  "dropped)",
                  (long long)records->counts.n_rows,
                  (long long)records->counts.n_dropped);
        return NULL;
    }
    struct loader *loader = mem_alloc(sizeof(*loader));
    loader->records = records;
    loader->options = *options;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->changed, NULL);
    walk_open(&loader->walk, records, &loader->options);
    for (int i = 0; i < N_BATCHES; i++) {
        loader->batches[i] = batch_create(options->rows, options->pack.row_tokens,
                                          options->target_capacity);
    }
    if (!start_thread(loader, err)) {
        loader_destroy(loader);
        return NULL;
    }
    return loader;
}

/* The thread ends before anything that it reads is freed. */
void loader_destroy(struct loader *loader)
{
    if (loader == NULL) {
        return;
    }
    stop_thread(loader);
    for (int i = 0; i < N_BATCHES; i++) {
        batch_destroy(loader->batches[i]);
    }
    walk_close(&loader->walk);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->mutex);
    mem_free(loader);
}

/* Asking for the next batch gives the one before back. n_taken counts this batch when
 * the call returns, n_back only at the next call: the trainer reads its batch without
 * the mutex meanwhile. With is_ended set, filled batches are still handed out first. */
const struct batch *loader_next(struct loader *loader)
{
    const struct batch *batch = NULL;
    pthread_mutex_lock(&loader->mutex);
    loader->n_back = loader->n_taken;
    pthread_cond_broadcast(&loader->changed);
    while (loader->n_filled == loader->n_taken && !loader->is_ended) {
        pthread_cond_wait(&loader->changed, &loader->mutex);
    }
    if (loader->n_filled > loader->n_taken) {
        batch = loader->batches[loader->n_taken % N_BATCHES];
        loader->n_taken++;
    }
    pthread_mutex_unlock(&loader->mutex);
    return batch;
}

/* Plans of the epochs before are made only for their numbers of rows. Batches that were
 * filled ahead are thrown away. */
bool loader_seek(struct loader *loader, int64_t position, struct error *err)
{
    ASSERT(position >= 0);
    struct walk *walk = &loader->walk;
    stop_thread(loader);
    walk_close(walk);
    walk_open(walk, loader->records, &loader->options);
    while (position - walk->rows_before >= walk->plan->n_rows) {
        next_epoch(walk);
    }
    walk->step_from = position - walk->rows_before;
    return start_thread(loader, err);
}
