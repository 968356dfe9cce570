/*
 * trainer_save - models on disk: the latest one at the end of a run, and on the way the
 * one with the lowest held-out loss (D12).
 *
 * Each is written beside its place and moved there whole. Parameters are read from the
 * step's memory; signals wait until a model is written.
 */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "train/job_params.h"
#include "train/trainer_parts.h"

bool trainer_save_keeps_best(const struct trainer *trainer)
{
    const struct settings *settings = trainer->job.settings;
    return trainer->job.has_eval && settings->eval.save_best &&
           settings->train.save_model;
}

/* A disk that is full at the end would cost the whole run: it is told at the start. The
 * best model stays beside the latest, or beside the better one that replaces it. */
bool trainer_save_check(const struct trainer *trainer, struct error *err)
{
    const size_t n_models = trainer_save_keeps_best(trainer) ? 2 : 1;
    return !trainer->job.settings->train.save_model ||
           file_check_room(
               trainer->folder.path, n_models * job_params_result_bytes(&trainer->job),
               n_models == 2 ? "the tuned and the best model (eval.save_best)"
                             : "the tuned model (train.save_model)",
               err);
}

const char *trainer_save_name(const struct trainer *trainer)
{
    return job_params_result_name(&trainer->job);
}

static bool write_result(struct trainer *trainer, const char *name, struct error *err)
{
    char *path = file_join(trainer->folder.path, name);
    const bool done = job_params_write(&trainer->job, trainer->step, path, err);
    mem_free(path);
    return done;
}

bool trainer_save_best(struct trainer *trainer, struct error *err)
{
    if (!write_result(trainer, "best.new", err) ||
        !run_folder_publish(&trainer->folder, "best.new", "best", err)) {
        return false;
    }
    trainer->best_updates = step_n_updates(trainer->step);
    return true;
}

/* The link is relative: the run folder can be moved. */
static bool link_best(const struct trainer *trainer, struct error *err)
{
    char *link = file_join(trainer->folder.path, "best");
    const bool done =
        symlink(trainer_save_name(trainer), link) == 0 ||
        error_set_errno(err, errno, "cannot link %s to the tuned model", link);
    mem_free(link);
    return done;
}

/* The best model is not written a second time: it is moved. */
bool trainer_save_latest(struct trainer *trainer, struct error *err)
{
    const char *name = trainer_save_name(trainer);
    if (trainer->best_updates > 0 &&
        trainer->best_updates == step_n_updates(trainer->step)) {
        return run_folder_publish(&trainer->folder, "best", name, err) &&
               link_best(trainer, err);
    }
    return write_result(trainer, name, err);
}
