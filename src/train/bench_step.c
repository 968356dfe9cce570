/*
 * bench_step - see the header.
 */
#include "train/bench_step.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/random.h"
#include "data/batch.h"
#include "train/bench_shape.h"
#include "train/flops.h"
#include "train/job_params.h"
#include "train/trainer_job.h"

/* Slots of a step: what 32 bits number, with room. */
static const int64_t max_slots = (int64_t)1 << 30;

/* One benchmark; close_bench takes it in any state. */
struct bench {
    const struct bench_step_wish *wish;
    struct job job; /* as a run has it, but for the data */
    struct step *step;
    struct batch *batch; /* of one pass, filled for each */
    double gemm_gflops;
    const char *gemm_provider;
    double measuring_ms; /* before the first step */
};

/* ---- the model and its step ---- */

/* A trainer_job_measure_fn: every slot of a pass is a target. */
static void measure_slots(struct job *job)
{
    job->train_C = (int32_t)(job->micro_rows * job->settings->data.row_tokens);
}

/* What trainer_job_open does for a run, without a tokenizer and without data. */
static bool open_job(struct bench *bench, struct error *err)
{
    struct job *job = &bench->job;
    const struct settings *settings = bench->wish->settings;
    job->settings = settings;
    job->batch_rows = (int32_t)settings->train.batch_rows;
    if (job->batch_rows * settings->data.row_tokens > max_slots) {
        return error_set(err, ERROR_USAGE,
                         "%d rows of %lld tokens are more than a step can hold",
                         (int)job->batch_rows, (long long)settings->data.row_tokens);
    }
    if (!bench_shape_open(&job->source, bench->wish->shape, err) ||
        !job_params_open(job, err)) {
        return false;
    }
    tensor_groups_init(&job->groups, settings, job->source.params, job->is_trainable);
    const struct mesh mesh = mesh_single();
    const struct backend_options engine = {.n_threads = (int)settings->threads,
                                           .isa = BACKEND_ISA_BEST,
                                           .profiles = true,
                                           .traces = bench->wish->trace_path != NULL,
                                           .abandon = interrupt_flag()};
    job->engine = backend_create_cpu(&mesh, 0, 1, &engine, err);
    return job->engine != NULL && trainer_job_choose_pass(job, measure_slots, err);
}

static bool open_step(struct bench *bench, struct error *err)
{
    struct job *job = &bench->job;
    const struct step_options options = trainer_job_step(job);
    const struct step_source source = job_params_source(job);
    bench->batch = batch_create(job->micro_rows,
                                (int32_t)job->settings->data.row_tokens, job->train_C);
    bench->step = step_create(job->engine, &options, &source, err);
    return bench->step != NULL && step_load(bench->step, err);
}

static void close_bench(struct bench *bench)
{
    step_destroy(bench->step);
    batch_destroy(bench->batch);
    backend_destroy(bench->job.engine);
    tensor_groups_deinit(&bench->job.groups);
    job_params_close(&bench->job);
    model_source_close(&bench->job.source);
}

/* ---- steps ---- */

/* n rows of random tokens from row `first` of the step on, one document a row; rows behind
 * them are padding. A row holds the same whatever pass it is in. */
static void fill_batch(struct bench *bench, int32_t first, int32_t n)
{
    struct batch *batch = bench->batch;
    const uint64_t V = (uint64_t)bench->job.source.config.V;
    const uint64_t seed = (uint64_t)bench->wish->settings->seed;
    const int32_t T = batch->row_tokens;
    batch_clear(batch, 0);
    for (int32_t i = 0; i < n * T; i++) {
        const uint64_t at = (uint64_t)(first + i / T) << 32 | (uint64_t)(i % T);
        batch->ids[i] = (int32_t)(random_bits(seed, RANDOM_TEST, 0, at) % V);
        batch->position[i] = i % T;
        batch->first_key[i] = 0;
        batch->loss_rows[i] = i;
        batch->targets[i] = (int32_t)(random_bits(seed, RANDOM_TEST, 1, at) % V);
        batch->weight[i] = 1.0f;
    }
    for (int32_t b = 0; b < n; b++) {
        batch->row_used[b] = T;
    }
    batch->n_targets = n * T;
    batch->weight_sum = n * T;
    batch->n_real_tokens = n * T;
}

/* All passes and the update; what they read is counted into *counts. The same rows each
 * time, so that the loss falls. */
static bool run_step(struct bench *bench, struct flops_counts *counts, double *seconds,
                     double *loss, struct error *err)
{
    const struct job *job = &bench->job;
    struct step_hyper hyper = {.lr = 1e-5,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = 0.01,
                               .clip_norm = 1.0};
    const int64_t from = clock_now_ns();
    for (int32_t row = 0; row < job->batch_rows; row += job->micro_rows) {
        double loss_sum = 0.0;
        fill_batch(bench, row,
                   (int32_t)base_min(job->micro_rows, job->batch_rows - row));
        if (!interrupt_check(err) ||
            !step_accumulate(bench->step, bench->batch, &loss_sum, err)) {
            return false;
        }
        hyper.loss_sum += loss_sum;
        hyper.weight_sum += bench->batch->weight_sum;
        flops_count(bench->batch, job->source.config.window, counts);
    }
    struct step_result result;
    if (!step_update(bench->step, &hyper, &result, err)) {
        return false;
    }
    *seconds = clock_since_ms(from) / 1000.0;
    *loss = hyper.loss_sum / hyper.weight_sum;
    return result.is_applied ||
           error_set(err, ERROR_FAILED,
                     "a step was not finite: loss %g, gradient norm %g", *loss,
                     result.grad_norm);
}

/* The peak so far: what disturbs a measurement makes it smaller. */
static void measure_peak(struct bench *bench)
{
    if (!bench->wish->measures_peak) {
        return;
    }
    const char *provider = NULL;
    const double gflops = backend_measure_best_gemm(bench->job.engine, &provider);
    if (gflops > bench->gemm_gflops) {
        bench->gemm_gflops = gflops;
        bench->gemm_provider = provider;
    }
}

static bool run_steps(struct bench *bench, struct bench_step_result *result,
                      struct error *err)
{
    struct job *job = &bench->job;
    for (int i = 0; i <= bench->wish->n_steps; i++) {
        struct flops_counts counts = {0};
        double seconds = 0.0;
        if (!run_step(bench, &counts, &seconds, &result->loss, err)) {
            return false;
        }
        if (i == 0) {
            result->first_step_s =
                (clock_since_process_start_ms() - bench->measuring_ms) / 1000.0;
            if (bench->wish->trace_path == NULL) {
                backend_profile_reset(job->engine);
            }
        } else if (i == 1 || seconds < result->step_s) {
            result->step_s = seconds;
            result->tokens_per_s = counts.tokens / seconds;
            result->gflops = flops_training(&job->source.config, job->source.params,
                                            job->is_trainable, &counts) /
                             seconds / 1e9;
        }
    }
    result->n_ops = backend_profile_ops(job->engine, result->ops, BENCH_STEP_MAX_OPS);
    return true;
}

static bool run(struct bench *bench, struct bench_step_result *result,
                struct error *err)
{
    if (!open_job(bench, err)) {
        return false;
    }
    const int64_t measuring_from = clock_now_ns();
    measure_peak(bench);
    bench->measuring_ms = clock_since_ms(measuring_from);
    if (!open_step(bench, err) || !run_steps(bench, result, err)) {
        return false;
    }
    result->peak_bytes = mem_peak_resident_bytes(); /* before matrices of the peak */
    measure_peak(bench);
    const struct job *job = &bench->job;
    snprintf(result->engine, sizeof(result->engine), "%s",
             backend_describe(job->engine));
    result->gemm_gflops = bench->gemm_gflops;
    result->gemm_provider = bench->gemm_provider;
    result->mfu =
        bench->gemm_gflops > 0.0 ? result->gflops / bench->gemm_gflops : (double)NAN;
    result->micro_rows = job->micro_rows;
    result->recomputes = job->recomputes;
    result->planned_bytes = job->plan_bytes;
    result->n_trained = (double)job->n_trained;
    const char *trace_path = bench->wish->trace_path;
    return trace_path == NULL || backend_trace_write(job->engine, trace_path, err);
}

bool bench_step_run(const struct bench_step_wish *wish,
                    struct bench_step_result *result, struct error *err)
{
    struct bench bench = {.wish = wish};
    *result = (struct bench_step_result){0};
    const bool done = run(&bench, result, err);
    close_bench(&bench);
    return done;
}
