/*
 * trainer_job - opens model and data, and chooses rows per pass and recomputation by
 * planning (pass_plan.h).
 */
#include "train/trainer_job.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "train/evaluate.h"
#include "train/job_data.h"
#include "train/job_params.h"
#include "train/pass_plan.h"

/* Rows of a run that are planned ahead to know its steps and targets. */
enum { MAX_WALKED_ROWS = 1 << 22 };

/* Share of the machine's memory that a run plans for when no limit is set. */
static const double MEMORY_SHARE = 0.8;

/* ---- rows, steps, memory ---- */

/* There is one rank, so rows per rank are rows. */
static void choose_batch(struct job *job)
{
    const struct settings *settings = job->settings;
    int64_t rows = settings->train.batch_rows;
    if (rows == 0) {
        rows = settings->train.batch_rows_per_rank;
    }
    job->batch_rows = rows == 0 ? 8 : (int32_t)rows;
}

/* n_ranks is 1: the loader deals out rows, and all are ours. */
struct loader_options trainer_job_loading(const struct job *job)
{
    const struct settings *settings = job->settings;
    return (struct loader_options){
        .pack = {.row_tokens = (int32_t)settings->data.row_tokens,
                 .is_packed = settings->data.pack,
                 .is_shuffled = settings->data.shuffle,
                 .seed = (uint64_t)settings->seed},
        .step_rows = job->batch_rows,
        .rows = job->micro_rows,
        .n_ranks = 1,
        .rank = 0,
        .target_capacity = job->train_C,
        .n_epochs = job->n_epochs,
        .n_steps = job->has_estimated_steps ? settings->train.steps : job->n_steps,
        .pad_id = (int32_t)job->source.config.pad_id,
    };
}

struct step_options trainer_job_step(const struct job *job)
{
    const struct settings *settings = job->settings;
    return (struct step_options){
        .shape = {.config = &job->source.config,
                  .params = job->source.params,
                  .is_trainable = job->is_trainable,
                  .stored = job->stored,
                  .has_ple_rows = job->has_ple_rows,
                  .B = job->micro_rows,
                  .T = settings->data.row_tokens,
                  .C = job->train_C,
                  .compute =
                      settings->precision == PRECISION_F32 ? DTYPE_F32 : DTYPE_BF16,
                  .z_loss = settings->train.z_loss,
                  .label_smoothing = settings->train.label_smoothing,
                  .dropout = job->lora.dropout,
                  .recomputes = job->recomputes},
        .trains = true,
        .evaluates = job->has_eval,
        .group = job->groups.group,
        .n_groups = job->groups.n,
        .has_norms = settings->train.norms_every > 0,
        .evaluate_C = job->eval_C,
        .is_stochastic = settings->precision == PRECISION_BF16 &&
                         settings->train.rounding != ROUNDING_NEAREST,
        .seed = (uint64_t)settings->seed,
    };
}

/* A run that is longer than can be walked in a moment: every slot of a pass may be a
 * target then. An epoch has no more rows than examples. */
static bool is_too_long_to_walk(const struct job *job)
{
    const struct settings *settings = job->settings;
    const bool ends_by_steps =
        settings->train.steps > 0 &&
        settings->train.steps <= MAX_WALKED_ROWS / job->batch_rows;
    const bool ends_by_epochs =
        settings->train.epochs > 0 &&
        (int64_t)job->train.n <= MAX_WALKED_ROWS / settings->train.epochs;
    return !ends_by_steps && !ends_by_epochs;
}

/* Without walking them all: epochs differ by a step or so where they are shuffled and
 * packed, so one more than the first is counted for each. The loader ends the run. */
static int64_t estimate_steps(const struct job *job)
{
    const struct settings *settings = job->settings;
    if (settings->train.epochs == 0) {
        return settings->train.steps;
    }
    const struct loader_options loading = trainer_job_loading(job);
    const bool is_exact = (!settings->data.pack || !settings->data.shuffle) &&
                          settings->data.weights.n == 0;
    const int64_t n =
        (loader_measure(&job->train, &loading, 1, 0).n_steps + (is_exact ? 0 : 1)) *
        settings->train.epochs;
    return settings->train.steps > 0 ? base_min(settings->train.steps, n) : n;
}

/* How many epochs estimated steps begin, of as many rows as the first one has. */
static int64_t estimate_epochs(const struct job *job)
{
    const struct loader_options loading = trainer_job_loading(job);
    const int64_t steps_in_one = loader_measure(&job->train, &loading, 1, 0).n_steps;
    const int64_t divisor = base_max(steps_in_one, 1);
    const int64_t n = job->n_steps / divisor + (job->n_steps % divisor != 0);
    return job->n_epochs > 0 ? base_min(job->n_epochs, n) : n;
}

/* Steps, epochs and loss_rows entries for the present micro_rows. */
static void measure_rows(struct job *job)
{
    const struct settings *settings = job->settings;
    job->n_epochs = settings->train.epochs;
    job->has_estimated_steps = is_too_long_to_walk(job);
    if (job->has_estimated_steps) {
        job->n_steps = estimate_steps(job);
        job->n_planned_epochs = estimate_epochs(job);
        job->train_C =
            (int32_t)base_round_up(job->micro_rows * settings->data.row_tokens, 64);
    } else {
        struct loader_options loading = trainer_job_loading(job);
        const struct loader_summary summary = loader_measure(
            &job->train, &loading, settings->train.epochs, settings->train.steps);
        job->n_steps = summary.n_steps;
        job->n_planned_epochs = summary.n_epochs;
        job->train_C = summary.target_capacity;
    }
    /* Passes of both kinds have the same rows; only the targets in them differ. */
    job->eval_C = job->has_eval
                      ? evaluate_capacity(&job->eval, job->micro_rows,
                                          (int32_t)settings->data.row_tokens, true)
                      : 0;
}

/* Of the gradient program, the largest one, or of an update that tells norms; batches and
 * results are small beside them. */
static size_t working_bytes(struct job *job)
{
    const struct mesh mesh = mesh_single();
    const struct step_options options = trainer_job_step(job);
    struct graph *graph = step_graphs_grad(&mesh, &options.shape);
    size_t bytes = backend_plan_bytes(job->engine, graph);
    if (options.has_norms) {
        const struct step_update_options updating = {.params = options.shape.params,
                                                     .group = options.group,
                                                     .n_groups = options.n_groups,
                                                     .has_norms = true};
        struct graph *update = step_graphs_update(&mesh, graph, &updating);
        const size_t needed = backend_plan_bytes(job->engine, update);
        bytes = needed > bytes ? needed : bytes;
        graph_destroy(update);
    }
    graph_destroy(graph);
    return bytes;
}

/* A share is left to the system, to the data and to the files that are mapped. */
static size_t memory_limit(const struct job *job)
{
    if (job->settings->memory_limit > 0) {
        return (size_t)job->settings->memory_limit;
    }
    const size_t machine = mem_machine_bytes();
    return machine == SIZE_MAX ? SIZE_MAX : (size_t)(MEMORY_SHARE * (double)machine);
}

/* What one try of the planner is about. */
struct trial {
    struct job *job;
    trainer_job_measure_fn measure;
};

/* A pass_plan_working_fn: the job as it would be with this choice. */
static size_t try_choice(void *context, int32_t micro_rows, bool recomputes)
{
    const struct trial *trial = context;
    struct job *job = trial->job;
    job->micro_rows = micro_rows;
    job->recomputes = recomputes;
    trial->measure(job);
    return working_bytes(job);
}

/* The planner may go back to an earlier choice, so the one that it made is measured
 * again. */
bool trainer_job_choose_pass(struct job *job, trainer_job_measure_fn measure,
                             struct error *err)
{
    const struct settings *settings = job->settings;
    const struct pass_plan_wish wish = {
        .batch_rows = job->batch_rows,
        .row_tokens = settings->data.row_tokens,
        .micro_rows = settings->train.micro_rows,
        .may_keep = settings->train.recompute != RECOMPUTE_LAYER,
        .may_recompute = settings->train.recompute != RECOMPUTE_NONE,
        .state_bytes = job_params_state_bytes(job),
        .limit = memory_limit(job)};
    struct trial trial = {.job = job, .measure = measure};
    struct pass_plan plan;
    if (!pass_plan_choose(&wish, try_choice, &trial, &plan, err)) {
        return false;
    }
    job->micro_rows = plan.rows;
    job->recomputes = plan.recomputes;
    measure(job);
    job->working_bytes = plan.working_bytes;
    job->plan_bytes = plan.working_bytes + wish.state_bytes;
    return true;
}

/* Cheap checks come first: data and settings fail before an engine starts threads. */
bool trainer_job_open(struct job *job, const struct settings *settings,
                      const struct trainer_options *options, struct error *err)
{
    *job = (struct job){.settings = settings, .options = options};
    const bool needs_weights = settings->init == INIT_WEIGHTS;
    const bool needs_tokenizer =
        settings->data.format != RECORDS_TOKENS || settings->sample.prompts.n > 0;
    if (!model_source_open(&job->source, settings->model, needs_weights,
                           needs_tokenizer, err) ||
        !job_params_open(job, err)) {
        return false;
    }
    tensor_groups_init(&job->groups, settings, job->source.params, job->is_trainable);
    if (!job_data_open(job, err)) {
        return false;
    }
    choose_batch(job);
    const struct mesh mesh = mesh_single();
    const struct backend_options engine = {.n_threads = (int)settings->threads,
                                           .isa = BACKEND_ISA_BEST,
                                           .profiles = options->profiles,
                                           .traces = options->profiles,
                                           .abandon = interrupt_flag()};
    job->engine = backend_create_cpu(&mesh, 0, 1, &engine, err);
    return job->engine != NULL && trainer_job_choose_pass(job, measure_rows, err);
}

/* Takes what open left, and a zeroed one. */
void trainer_job_close(struct job *job)
{
    backend_destroy(job->engine);
    tensor_groups_deinit(&job->groups);
    job_params_close(job);
    job_data_close(job);
    model_source_close(&job->source);
}
