/*
 * job_params - see the header.
 */
#include "train/job_params.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/random_init.h"
#include "text/tokenizer_write.h"
#include "train/trainer_job.h"

/* ---- where values come from ---- */

/* A weights_read_fn over the job: weights from the model's file or made, adapters from
 * their folder or made. */
static bool read_param(void *context, int param, int64_t first_row, int64_t n_rows,
                       float *target, struct error *err)
{
    struct job *job = context;
    struct params *params = job->source.params;
    const uint64_t seed = (uint64_t)job->settings->seed;
    if (param >= params->n_model) {
        if (job->adapter != NULL) {
            return lora_read(job->adapter, param, first_row, n_rows, target, err);
        }
        lora_init_rows(params, seed, param, first_row, n_rows, target);
        return true;
    }
    if (job->settings->init == INIT_RANDOM) {
        random_init_rows(&job->source.config, params, seed, param, first_row, n_rows,
                         target);
        return true;
    }
    return model_source_read(&job->source, param, first_row, n_rows, target, err);
}

/* As step_source.view. Made values and adapters lie nowhere. */
static const void *view_param(void *context, int param, enum dtype *dtype)
{
    struct job *job = context;
    if (param >= job->source.params->n_model || job->settings->init == INIT_RANDOM) {
        return NULL;
    }
    return model_source_view(&job->source, param, dtype);
}

struct step_source job_params_source(const struct job *job)
{
    return (struct step_source){
        .read = read_param, .view = view_param, .context = (void *)(uintptr_t)job};
}

/* ---- adapters ---- */

bool job_params_has_lora(const struct job *job)
{
    return job->lora.rank > 0;
}

/* Rank and alpha are the adapter's; settings that say otherwise are a mistake, those
 * that say nothing have their default. */
static bool continue_adapter(struct job *job, struct error *err)
{
    const struct settings *settings = job->settings;
    const char *path = settings->lora.adapter;
    job->adapter = lora_open(path, job->source.params, err);
    if (job->adapter == NULL) {
        return false;
    }
    job->lora = *lora_options_of(job->adapter);
    if (settings->lora.rank != 0 && settings->lora.rank != job->lora.rank) {
        return error_set(err, ERROR_USAGE,
                         "lora.rank is %lld, but the adapter %s has rank %lld: leave "
                         "lora.rank out to go on from it",
                         (long long)settings->lora.rank, path,
                         (long long)job->lora.rank);
    }
    /* 16 is the default: nobody has said anything. */
    if (settings->lora.alpha != 16.0 && settings->lora.alpha != job->lora.alpha) {
        return error_set(err, ERROR_USAGE,
                         "lora.alpha is %g, but the adapter %s has alpha %g: leave "
                         "lora.alpha out to go on from it",
                         settings->lora.alpha, path, job->lora.alpha);
    }
    if (settings->lora.dropout > 0.0) {
        job->lora.dropout = settings->lora.dropout;
    }
    log_note("Going on from adapter %s: rank %lld, alpha %g", path,
             (long long)job->lora.rank, job->lora.alpha);
    return true;
}

/* Adds the adapters of the run to the table, if it has any. */
static bool attach_adapters(struct job *job, struct error *err)
{
    const struct settings *settings = job->settings;
    if (settings->lora.adapter != NULL) {
        return continue_adapter(job, err);
    }
    if (settings->lora.rank == 0) {
        return true;
    }
    job->lora = (struct lora_options){
        .rank = settings->lora.rank,
        .alpha = settings->lora.alpha,
        .dropout = settings->lora.dropout,
        .targets = settings->lora.targets.items,
        .n_targets = settings->lora.targets.n,
    };
    return lora_attach(job->source.params, &job->lora, err);
}

/* ---- which tensors are trained ---- */

/* A pattern that freezes nothing is probably misspelled. */
static void note_useless_patterns(const struct job *job)
{
    const struct params *params = job->source.params;
    const struct string_list *freeze = &job->settings->train.freeze;
    for (int64_t k = 0; k < freeze->n; k++) {
        bool fits = false;
        for (int i = 0; i < params->n && !fits; i++) {
            fits = str_matches(freeze->items[k], params->info[i].name);
        }
        if (!fits) {
            log_note("train.freeze: no tensor matches \"%s\"", freeze->items[k]);
        }
    }
}

/* A tensor is frozen by any pattern that fits it, a weight by having adapters beside
 * it. A frozen per-layer table stays in its file only if there is a file: random
 * weights are made. */
static bool choose_trained(struct job *job, struct error *err)
{
    const struct params *params = job->source.params;
    const struct string_list *freeze = &job->settings->train.freeze;
    job->is_trainable = mem_alloc_array((size_t)params->n, sizeof(bool));
    note_useless_patterns(job);
    for (int i = 0; i < params->n; i++) {
        bool is_frozen = !params->info[i].is_trainable_by_default ||
                         (job_params_has_lora(job) && i < params->n_model);
        for (int64_t k = 0; k < freeze->n; k++) {
            is_frozen =
                is_frozen || str_matches(freeze->items[k], params->info[i].name);
        }
        job->is_trainable[i] = !is_frozen;
        job->n_trained += is_frozen ? 0 : params->info[i].n_elements;
    }
    if (job->n_trained == 0) {
        return error_set(err, ERROR_USAGE,
                         "train.freeze: every tensor is frozen, nothing to train");
    }
    const int table = params_index(params, PARAM_PLE_TABLE, -1);
    job->has_ple_rows =
        table >= 0 && !job->is_trainable[table] && job->settings->init == INIT_WEIGHTS;
    return true;
}

/* ---- number formats in memory ---- */

/*
 * Of a frozen tensor. Products in bf16 want matrices in bf16: from a file of f32 they
 * are rounded once, as they would be at each use. Vectors cost nothing and keep all
 * their digits, but in precision bf16, which is bf16 throughout.
 */
static enum dtype frozen_dtype(struct job *job, int param)
{
    const struct settings *settings = job->settings;
    const bool is_matrix = job->source.params->info[param].rank == 2;
    enum dtype found = DTYPE_F32;
    switch ((enum lora_base)settings->lora.base) {
    case LORA_BASE_F32:
        return DTYPE_F32;
    case LORA_BASE_BF16:
        return is_matrix ? DTYPE_BF16 : DTYPE_F32;
    case LORA_BASE_FILE:
        if (settings->precision == PRECISION_BF16 ||
            (settings->precision == PRECISION_BF16_COMPUTE && is_matrix)) {
            return DTYPE_BF16;
        }
        return view_param(job, param, &found) != NULL ? found : DTYPE_F32;
    }
    UNREACHABLE();
}

/* What is trained is f32 (master weights), in precision bf16 that. Adapters are alike
 * whether or not some of them are frozen. A role of which some layers are trained, or
 * that has several types in the file, is f32. */
static void choose_stored(struct job *job)
{
    const struct params *params = job->source.params;
    const enum dtype trained =
        job->settings->precision == PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
    job->stored = mem_alloc_array((size_t)params->n, sizeof(*job->stored));
    for (int i = 0; i < params->n; i++) {
        const bool is_plain = job->is_trainable[i] || i >= params->n_model;
        job->stored[i] = is_plain ? trained : frozen_dtype(job, i);
    }
    params_unify_dtypes(params, job->stored);
}

bool job_params_open(struct job *job, struct error *err)
{
    if (!attach_adapters(job, err) || !choose_trained(job, err)) {
        return false;
    }
    choose_stored(job);
    return true;
}

void job_params_close(struct job *job)
{
    lora_close(job->adapter);
    mem_free(job->is_trainable);
    mem_free(job->stored);
    job->adapter = NULL;
    job->is_trainable = NULL;
    job->stored = NULL;
}

/* ---- sizes ---- */

/* Whether the step reads this parameter in the file. */
static bool is_mapped(const struct job *job, int param)
{
    enum dtype found;
    return !job->is_trainable[param] &&
           view_param((void *)(uintptr_t)job, param, &found) != NULL &&
           found == job->stored[param];
}

/* Of a parameter alone; a per-layer table that stays in its file has none. */
static size_t own_bytes(const struct job *job, int param)
{
    const struct param_info *info = &job->source.params->info[param];
    const bool stays_in_file = info->role == PARAM_PLE_TABLE && job->has_ple_rows;
    return stays_in_file ? 0
                         : (size_t)info->n_elements * dtype_bytes(job->stored[param]);
}

/* Parameter and two moments in one type, and a gradient sum in f32; what is frozen has
 * the parameter alone, if that is not in the file. */
size_t job_params_state_bytes(const struct job *job)
{
    size_t bytes = 0;
    for (int i = 0; i < job->source.params->n; i++) {
        const size_t sum =
            (size_t)job->source.params->info[i].n_elements * sizeof(float);
        if (job->is_trainable[i]) {
            bytes += 3 * own_bytes(job, i) + sum;
        } else if (!is_mapped(job, i)) {
            bytes += own_bytes(job, i);
        }
    }
    return bytes;
}

size_t job_params_mapped_bytes(const struct job *job)
{
    size_t bytes = 0;
    for (int i = 0; i < job->source.params->n; i++) {
        bytes += is_mapped(job, i) ? own_bytes(job, i) : 0;
    }
    return bytes;
}

/* ---- the result ---- */

const char *job_params_result_name(const struct job *job)
{
    return job_params_has_lora(job) ? "adapter" : "model";
}

/* Of the model's files (train.save_dtype). */
static enum dtype saved_dtype(const struct job *job)
{
    switch ((enum save_dtype_kind)job->settings->train.save_dtype) {
    case SAVE_DTYPE_SOURCE:
        return job->source.config.dtype;
    case SAVE_DTYPE_F32:
        return DTYPE_F32;
    case SAVE_DTYPE_BF16:
        return DTYPE_BF16;
    case SAVE_DTYPE_F16:
        return DTYPE_F16;
    }
    UNREACHABLE();
}

size_t job_params_result_bytes(const struct job *job)
{
    const struct params *params = job->source.params;
    return job_params_has_lora(job)
               ? (size_t)params->n_adapter_elements * sizeof(float)
               : (size_t)params->n_elements * dtype_bytes(saved_dtype(job));
}

/* Adapters are small: they keep all their digits. */
static bool write_adapter(const struct job *job, struct step *step, const char *path,
                          struct error *err)
{
    const struct lora_output output = {
        .params = job->source.params,
        .options = &job->lora,
        .dtype = DTYPE_F32,
        .read = step_read_param,
        .context = step,
        .base_path = job->settings->model,
        .prefix = job->source.weights == NULL ? "model."
                                              : weights_prefix(job->source.weights),
    };
    return lora_write_folder(path, &output, err);
}

/* Master weights are f32; the file gets the precision that is wanted, and the
 * source's config and tokenizer come along. */
bool job_params_write(const struct job *job, struct step *step, const char *path,
                      struct error *err)
{
    if (job_params_has_lora(job)) {
        return write_adapter(job, step, path, err);
    }
    const struct weights_output output = {
        .config = &job->source.config,
        .params = job->source.params,
        .dtype = saved_dtype(job),
        .read = step_read_param,
        .context = step,
        .source_path = job->settings->model,
        .write_tokenizer = tokenizer_write_from,
    };
    return weights_write_folder(path, &output, err);
}
