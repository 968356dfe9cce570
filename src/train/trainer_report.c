/*
 * trainer_report - what a run says to people: its first lines, its epochs, its end.
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/job_params.h"
#include "train/trainer_parts.h"

/* How much of the model is learned. */
static void say_trained(const struct job *job, char *text, size_t size)
{
    const long long n = (long long)job->n_trained;
    if (job_params_has_lora(job)) {
        /* Adapters are additional: their share is of the model that they change. */
        const double share = 100.0 * (double)n / (double)job->source.params->n_elements;
        snprintf(text, size, "%lld of adapters of rank %lld trained (%.2g %%)", n,
                 (long long)job->lora.rank, share);
    } else {
        snprintf(text, size, "%lld of them trained", n);
    }
}

/* The lines that a log should begin with: enough to see what ran. */
void trainer_report_start(const struct trainer *trainer)
{
    const struct job *job = &trainer->job;
    char planned[24];
    char mapped[24];
    char trained[100];
    say_trained(job, trained, sizeof(trained));
    str_format_bytes(planned, (double)job->plan_bytes);
    log_note("Starting fine-tuning: model=%s, engine=%s, ranks=1", job->settings->model,
             backend_describe(job->engine));
    log_note("%s, %lld parameters, %s; %s planned",
             model_family_name(job->source.config.family),
             (long long)job->source.params->n_elements, trained, planned);
    if (job_params_mapped_bytes(job) > 0) {
        str_format_bytes(mapped, (double)job_params_mapped_bytes(job));
        log_note("%s of frozen weights are read in place, from the model's file",
                 mapped);
    }
    log_note("%lld steps of %d rows of %lld tokens, %d rows a pass%s",
             (long long)job->n_steps, (int)job->batch_rows,
             (long long)job->settings->data.row_tokens, (int)job->micro_rows,
             job->recomputes ? ", activations recomputed" : "");
}

/* Skipped steps count in time and tokens, not in the loss. */
void trainer_report_epoch(struct trainer *trainer)
{
    const double seconds = clock_since_ms(trainer->epoch_started_ns) / 1000.0;
    progress_pause(&trainer->progress);
    log_note("Epoch %lld/%lld | loss=%.4f | epoch_time=%.2fs | tokens/s=%.1f",
             (long long)trainer->epoch + 1,
             /* Without a number of epochs, those so far. */
             (long long)base_max(trainer->job.n_epochs, trainer->epoch + 1),
             trainer->epoch_loss_sum / trainer->epoch_weight_sum, seconds,
             metrics_per_second(trainer->epoch_real_tokens, trainer->epoch_step_ms));
    trainer->epoch_started_ns = clock_now_ns();
    trainer->epoch_loss_sum = 0.0;
    trainer->epoch_weight_sum = 0.0;
    trainer->epoch_step_ms = 0.0;
    trainer->epoch_real_tokens = 0;
}

/* The last lines of a run. */
void trainer_report_end(const struct trainer *trainer)
{
    char duration[24];
    clock_format_duration(duration, clock_since_ms(trainer->started_ns) / 1000.0);
    log_note("Done: %lld steps in %s, training loss %.4f -> %.4f",
             (long long)trainer->step_number, duration, trainer->first_loss,
             trainer->last_loss);
    if (!isnan(trainer->first_eval_loss)) {
        log_note("Held-out loss %.4f -> %.4f", trainer->first_eval_loss,
                 trainer->last_eval_loss);
    }
    if (trainer->n_skipped > 0) {
        log_warning("%lld steps were skipped: loss or gradient not finite",
                    (long long)trainer->n_skipped);
    }
    char peak[24];
    str_format_bytes(peak, (double)mem_peak_resident_bytes());
    log_note("Run folder: %s (peak memory %s)", trainer->folder.path, peak);
}
