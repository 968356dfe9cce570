/*
 * trainer_save - what a run writes beside its metrics: the tuned model.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/trainer_parts.h"

/* A disk that is full at the end would cost the whole run: it is told at the start. */
bool trainer_save_check(const struct trainer *trainer, struct error *err)
{
    const struct job *job = &trainer->job;
    const size_t bytes =
        (size_t)job->source.params->n_elements * dtype_bytes(job->source.config.dtype);
    return !job->settings->train.save_model ||
           file_check_room(trainer->folder.path, bytes,
                           "the tuned model (train.save_model)", err);
}

/* In the type of the source; its config and tokenizer come along. */
bool trainer_save_model(struct trainer *trainer, struct error *err)
{
    const struct job *job = &trainer->job;
    char *path = file_join(trainer->folder.path, "model");
    const struct weights_output output = {
        .config = &job->source.config,
        .params = job->source.params,
        /* Master weights are f32; the file gets the precision that the model came
         * in. */
        .dtype = job->source.config.dtype,
        .read = step_read_param,
        .context = trainer->step,
        .source_path = job->settings->model,
    };
    const bool done = weights_write_folder(path, &output, err);
    if (done) {
        log_note("Tuned model: %s", path);
    }
    mem_free(path);
    return done;
}
