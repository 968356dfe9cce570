/*
 * lathe_score - losses of rows of tokens through the public interface.
 *
 * One row a batch, all through one program that fits the longest: the memory does not
 * depend on how many there are (C38). Nothing is trained, so the step has the evaluation
 * program only.
 */
#include <math.h>

#include "api/lathe_parts.h"
#include "backend/backend.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/batch.h"
#include "data/records.h"
#include "train/step.h"

/* What one call holds; close_score takes it at any stage. */
struct scorer {
    struct lathe_model *model;
    struct engine *engine;
    struct step *step;
    struct batch *batch;
    bool *is_trainable; /* [params->n], all false */
    enum dtype *stored; /* [params->n] as in the file, where it is read in place */
    float *weight;      /* [T] ones, of rows that give no weights */
    float *token_loss;  /* [C] */
    int32_t T, C;       /* tokens and targets of a batch */
};

/* The weight of token t as a target. */
static float weight_of(const struct lathe_row *row, size_t t)
{
    return t == 0 ? 0.0f : row->weight == NULL ? 1.0f : row->weight[t];
}

/* All rows before any work: an error never follows half an answer. Finds T and C. */
static bool check_rows(struct scorer *scorer, const struct lathe_row *rows, size_t n,
                       struct error *err)
{
    const struct model_config *config = &scorer->model->source.config;
    int64_t longest = 1;
    int64_t most_targets = 1;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].n > (size_t)config->max_positions) {
            return error_set(err, ERROR_USAGE,
                             "row %zu has %zu tokens, the model goes to %lld", i,
                             rows[i].n, (long long)config->max_positions);
        }
        int64_t n_targets = 0;
        for (size_t t = 0; t < rows[i].n; t++) {
            if (rows[i].ids[t] < 0 || rows[i].ids[t] >= config->V) {
                return error_set(err, ERROR_USAGE,
                                 "row %zu: token %zu is %d, expected 0 to %lld", i, t,
                                 (int)rows[i].ids[t], (long long)config->V - 1);
            }
            const float weight = weight_of(&rows[i], t);
            if (!isfinite(weight) || weight < 0.0f) {
                return error_set(err, ERROR_USAGE,
                                 "row %zu: weight %zu is %g, expected 0 or more", i, t,
                                 (double)weight);
            }
            n_targets += weight > 0.0f;
        }
        longest = base_max(longest, (int64_t)rows[i].n);
        most_targets = base_max(most_targets, n_targets);
    }
    scorer->T = (int32_t)base_round_up(longest, 16);
    scorer->C = (int32_t)base_round_up(most_targets, 64);
    return true;
}

/* Frozen per-layer tables stay in their file. */
static bool create_step(struct scorer *scorer, struct error *err)
{
    struct lathe_model *model = scorer->model;
    scorer->engine = lathe_model_engine(model, err);
    if (scorer->engine == NULL) {
        return false;
    }
    scorer->is_trainable =
        mem_alloc_array((size_t)model->source.params->n, sizeof(bool));
    scorer->stored = model_source_dtypes(&model->source);
    const struct step_options options = {
        .shape = {.config = &model->source.config,
                  .params = model->source.params,
                  .is_trainable = scorer->is_trainable,
                  .stored = scorer->stored,
                  .has_ple_rows = model->source.config.P > 0,
                  .B = 1,
                  .T = scorer->T,
                  .C = scorer->C,
                  .compute = DTYPE_F32},
        .evaluates = true,
    };
    const struct step_source source = {.read = model_source_read,
                                       .view = model_source_view,
                                       .context = &model->source};
    scorer->step = step_create(scorer->engine, &options, &source, err);
    return scorer->step != NULL && step_load(scorer->step, err);
}

/* Targets come back in the order of their tokens. Sums in f64, in that order. */
static bool score_row(struct scorer *scorer, const struct lathe_row *row,
                      struct lathe_score *score, float *token_loss, struct error *err)
{
    const int32_t document_from[] = {0};
    const struct example example = {
        .ids = row->ids,
        .loss_weight = row->weight == NULL ? scorer->weight : row->weight,
        .document_from = document_from,
        .n = (int32_t)row->n,
        .n_documents = 1,
    };
    struct batch *batch = scorer->batch;
    batch_clear(batch, scorer->model->source.config.pad_id);
    batch_add(batch, 0, &example);
    double ignored = 0.0;
    if (!step_evaluate(scorer->step, batch, &ignored, scorer->token_loss, err)) {
        return false;
    }
    *score = (struct lathe_score){.n_targets = batch->n_targets};
    for (int32_t c = 0; c < batch->n_targets; c++) {
        score->loss_sum += (double)batch->weight[c] * (double)scorer->token_loss[c];
        score->weight_sum += (double)batch->weight[c];
    }
    /* c counts the targets that went by. */
    for (size_t t = 0, c = 0; token_loss != NULL && t < row->n; t++) {
        token_loss[t] = weight_of(row, t) > 0.0f ? scorer->token_loss[c++] : NAN;
    }
    return true;
}

static bool score_rows(struct scorer *scorer, const struct lathe_row *rows, size_t n,
                       struct lathe_score *scores, float *const *token_loss,
                       struct error *err)
{
    if (!check_rows(scorer, rows, n, err) || !create_step(scorer, err)) {
        return false;
    }
    scorer->batch = batch_create(1, scorer->T, scorer->C);
    scorer->token_loss = mem_alloc_array((size_t)scorer->C, sizeof(float));
    scorer->weight = mem_alloc_array((size_t)scorer->T, sizeof(float));
    for (int32_t t = 0; t < scorer->T; t++) {
        scorer->weight[t] = 1.0f;
    }
    for (size_t i = 0; i < n; i++) {
        scores[i] = (struct lathe_score){0};
        if (rows[i].n > 0 &&
            !score_row(scorer, &rows[i], &scores[i],
                       token_loss == NULL ? NULL : token_loss[i], err)) {
            return false;
        }
    }
    return true;
}

/* The step goes before the engine that holds its arrays. */
static void close_scorer(struct scorer *scorer)
{
    mem_free(scorer->weight);
    mem_free(scorer->token_loss);
    mem_free(scorer->is_trainable);
    mem_free(scorer->stored);
    batch_destroy(scorer->batch);
    step_destroy(scorer->step);
    backend_destroy(scorer->engine);
}

bool lathe_model_score(struct lathe_model *model, const struct lathe_row *rows,
                       size_t n, struct lathe_score *scores, float *const *token_loss,
                       struct lathe_error *error)
{
    struct error err;
    struct scorer scorer = {.model = model};
    const bool done = score_rows(&scorer, rows, n, scores, token_loss, &err);
    close_scorer(&scorer);
    return done || lathe_report(error, &err);
}
