/*
 * evaluate - see the header.
 */
#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/batch.h"
#include "data/loader.h"
#include "train/metrics.h"
#include "train/step.h"

/* One pass in file order: every run of an evaluation sees the same batches. */
static struct loader_options loader_options(int32_t B, int32_t T, int32_t C,
                                            bool is_packed)
{
    return (struct loader_options){
        .pack = {.row_tokens = T, .is_packed = is_packed, .is_shuffled = false},
        .step_rows = B,
        .rows = B,
        .n_ranks = 1,
        .rank = 0,
        .target_capacity = C,
        .n_epochs = 1,
    };
}

/* Measured with room 0: the loader then says how much the fullest batch needs. */
int32_t evaluate_capacity(const struct records *records, int32_t B, int32_t T,
                          bool is_packed)
{
    const struct loader_options options = loader_options(B, T, 0, is_packed);
    return loader_measure(records, &options, 1, 0).target_capacity;
}

/* Sums by file of the examples. */
struct by_source {
    double *loss;   /* [n] borrowed; sums first, means in the end */
    double *weight; /* [n] owned */
    int32_t n;
};

static struct by_source begin_by_source(const struct evaluate_options *options)
{
    struct by_source by = {.loss = options->source_loss, .n = options->n_sources};
    if (by.loss != NULL) {
        by.weight = mem_alloc_array((size_t)by.n, sizeof(*by.weight));
        memset(by.loss, 0, (size_t)by.n * sizeof(*by.loss));
    }
    return by;
}

static void add_by_source(struct by_source *by, const struct batch *batch,
                          const float *token_loss)
{
    for (int32_t c = 0; by->loss != NULL && c < batch->n_targets; c++) {
        const int32_t source = batch->sources[batch->target_example[c]];
        ASSERT(0 <= source && source < by->n);
        by->loss[source] += (double)batch->weight[c] * (double)token_loss[c];
        by->weight[source] += (double)batch->weight[c];
    }
}

static void end_by_source(struct by_source *by)
{
    for (int32_t i = 0; by->loss != NULL && i < by->n; i++) {
        by->loss[i] = by->weight[i] > 0.0 ? metrics_plain(by->loss[i] / by->weight[i])
                                          : (double)NAN;
    }
    mem_free(by->weight);
}

/* The mean over all targets, weighted: sums are added up in f64 and divided once, as in
 * training. */
bool evaluate_run(struct step *step, const struct records *records,
                  const struct evaluate_options *options,
                  struct evaluate_result *result, struct error *err)
{
    struct loader_options loading =
        loader_options(options->B, options->T, options->C, options->is_packed);
    loading.pad_id = options->pad_id;
    struct loader *loader = loader_create(records, &loading, err);
    if (loader == NULL) {
        return false;
    }
    /* Losses of single tokens are fetched only where somebody asks for them. */
    const bool needs_tokens = options->visit != NULL || options->source_loss != NULL;
    float *token_loss =
        !needs_tokens ? NULL : mem_alloc_array((size_t)options->C, sizeof(*token_loss));
    *result = (struct evaluate_result){0};
    struct by_source by_source = begin_by_source(options);
    double total = 0.0;
    bool done = true;
    for (const struct batch *batch; done && (batch = loader_next(loader)) != NULL;) {
        double loss_sum = 0.0;
        done = step_evaluate(step, batch, &loss_sum, token_loss, err);
        if (done && options->visit != NULL) {
            options->visit(options->context, batch, token_loss);
        }
        if (done) {
            add_by_source(&by_source, batch, token_loss);
        }
        total += loss_sum;
        result->n_targets += batch->n_targets;
        result->weight_sum += batch->weight_sum;
    }
    result->loss =
        result->weight_sum > 0.0 ? metrics_plain(total / result->weight_sum) : 0.0;
    end_by_source(&by_source);
    mem_free(token_loss);
    loader_destroy(loader);
    return done;
}
