/*
 * run_folder - see the header.
 */
#include "train/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/settings.h"

/* What run_folder_create makes. */
static const char *const own_files[] = {"run.yaml", "log.txt", "metrics.jsonl",
                                        "samples.jsonl"};

/* All that run_folder_create makes: a folder where somebody keeps a run file called
 * run.yaml is none. A run that was stopped early is. */
static bool is_run(const char *path)
{
    const char *const files[] = {"run.yaml", "log.txt", "metrics.jsonl"};
    bool has_all = true;
    for (size_t i = 0; i < ARRAY_LENGTH(files) && has_all; i++) {
        char *file = file_join(path, files[i]);
        has_all = file_exists(file);
        mem_free(file);
    }
    return has_all;
}

/* Is `path` (NULL: no) the folder, or in it, whatever way it is written? */
static bool lies_in(const char *path, const char *folder)
{
    char *inner = path == NULL ? NULL : realpath(path, NULL);
    char *outer = realpath(folder, NULL);
    bool is_inside = false;
    if (inner != NULL && outer != NULL) {
        const size_t length = strlen(outer);
        is_inside = strncmp(inner, outer, length) == 0 &&
                    (inner[length] == '/' || inner[length] == '\0');
    }
    free(inner);
    free(outer);
    return is_inside;
}

/*
 * Training on from runs/a/model into runs/a would remove the model that it starts from.
 */
static bool check_inputs(const struct settings *settings, struct error *err)
{
    const struct {
        const char *what;
        struct string_list paths;
    } inputs[] = {
        {"the model", STRING_LIST_OF(settings->model)},
        {"the adapter", STRING_LIST_OF(settings->lora.adapter)},
        {"data.train", settings->data.train},
        {"data.eval", settings->data.eval},
        {"the current folder", STRING_LIST_OF(".")},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(inputs); i++) {
        for (int64_t k = 0; k < inputs[i].paths.n; k++) {
            const char *path = inputs[i].paths.items[k];
            if (lies_in(path, settings->run)) {
                return error_set(
                    err, ERROR_USAGE,
                    "run folder %s holds %s of this run, %s: --overwrite would "
                    "remove it",
                    settings->run, inputs[i].what, path);
            }
        }
    }
    return true;
}

/* The folder itself, or the nearest one above it that is there, can be written to: told
 * before the data is read, which may take long. */
static bool check_writable(const char *path, struct error *err)
{
    char *above = mem_strdup(path);
    while (!file_exists(above)) {
        char *slash = strrchr(above, '/');
        if (slash == NULL || slash == above) {
            mem_free(above);
            above = mem_strdup(slash == NULL ? "." : "/");
            break;
        }
        *slash = '\0';
    }
    bool done = true;
    if (!file_is_folder(above)) {
        done = error_set(err, ERROR_USAGE, "run folder %s cannot be made: %s is a file",
                         path, above);
    } else if (access(above, W_OK | X_OK) != 0) {
        done = error_set(err, ERROR_USAGE,
                         "run folder %s cannot be written: %s: %s; choose another with "
                         "--set run=FOLDER",
                         path, above, strerror(errno));
    }
    mem_free(above);
    return done;
}

/* Only a run or an empty folder is ever replaced. */
bool run_folder_check(const struct settings *settings, bool overwrites,
                      struct error *err)
{
    const char *path = settings->run;
    if (!file_exists(path) || file_is_empty_folder(path)) {
        return check_writable(path, err);
    }
    if (!is_run(path)) {
        return error_set(err, ERROR_USAGE,
                         "run folder %s exists and is not a run: choose another with "
                         "--set run=FOLDER",
                         path);
    }
    if (!overwrites) {
        return error_set(err, ERROR_USAGE,
                         "run folder %s exists: --overwrite replaces it, --set "
                         "run=FOLDER writes elsewhere",
                         path);
    }
    return check_inputs(settings, err) && check_writable(path, err);
}

/* The folder a path is in, without links, freed with mem_free. NULL: there is none. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL
                       ? mem_strdup(".")
                       : mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    char *real = realpath(folder, NULL);
    mem_free(folder);
    char *kept = real == NULL ? NULL : mem_strdup(real);
    free(real);
    return kept;
}

/* Is it the same file, or, of one that is not there, the same name in the same folder? */
static bool is_same_file(const char *a, const char *b)
{
    struct stat info_a;
    struct stat info_b;
    const bool has_a = stat(a, &info_a) == 0;
    const bool has_b = stat(b, &info_b) == 0;
    if (has_a || has_b) {
        return has_a && has_b && info_a.st_dev == info_b.st_dev &&
               info_a.st_ino == info_b.st_ino;
    }
    char *folder_a = folder_of(a);
    char *folder_b = folder_of(b);
    const bool is_same = folder_a != NULL && folder_b != NULL &&
                         strcmp(folder_a, folder_b) == 0 &&
                         strcmp(basename(a), basename(b)) == 0;
    mem_free(folder_a);
    mem_free(folder_b);
    return is_same;
}

/* Anything in a model of the run is its own, while a picture that stands beside the
 * metrics may be drawn anew. */
static bool belongs_to(const char *folder, const char *path)
{
    bool is_own = false;
    for (size_t i = 0; i < ARRAY_LENGTH(own_files) && !is_own; i++) {
        char *file = file_join(folder, own_files[i]);
        is_own = is_same_file(file, path);
        mem_free(file);
    }
    const char *const models[] = {"model", "best"};
    char *above = folder_of(path);
    for (size_t i = 0; i < ARRAY_LENGTH(models) && !is_own; i++) {
        char *model = file_join(folder, models[i]);
        is_own = lies_in(path, model) || lies_in(above, model);
        mem_free(model);
    }
    mem_free(above);
    return is_own;
}

bool run_folder_check_output(const char *run, const char *option, const char *path,
                             struct error *err)
{
    char *folder = file_is_folder(run) ? mem_strdup(run) : folder_of(run);
    const bool is_own =
        folder != NULL &&
        (is_same_file(run, path) ||
         /* Any file may be given as metrics; its folder is then no run. */
         ((file_is_folder(run) || is_run(folder)) && belongs_to(folder, path)));
    mem_free(folder);
    return !is_own || error_set(err, ERROR_USAGE,
                                "%s %s: belongs to the run %s and would be lost; "
                                "choose another name",
                                option, path, run);
}

/* Opens folder/name for appending lines. A line is written as soon as it is complete,
 * so that `tail -f` and a crash see whole ones. */
static FILE *open_lines(const char *folder, const char *name, struct error *err)
{
    char *path = file_join(folder, name);
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        error_set_errno(err, errno, "cannot write %s", path);
    } else {
        setvbuf(file, NULL, _IOLBF, BUFSIZ);
    }
    mem_free(path);
    return file;
}

/* All settings with their values now: the run can be repeated from this file alone. */
static bool write_settings(const char *folder, const struct settings *settings,
                           struct error *err)
{
    struct str text = {0};
    settings_print_yaml(settings, &text);
    char *path = file_join(folder, "run.yaml");
    const bool done = file_write_atomic(path, text.text, text.length, err);
    mem_free(path);
    str_deinit(&text);
    return done;
}

/* A stream into memory takes lines as a file does. Without one the log begins later. */
void run_folder_hold_log(struct run_folder *folder)
{
    folder->early_log = open_memstream(&folder->early_text, &folder->early_length);
    log_set_file(folder->early_log);
}

/* What was held goes to the log file, where there is one. */
static void end_early_log(struct run_folder *folder)
{
    if (folder->early_log == NULL) {
        return;
    }
    log_set_file(NULL);
    fclose(folder->early_log);
    if (folder->log != NULL) {
        fwrite(folder->early_text, 1, folder->early_length, folder->log);
        fflush(folder->log);
    }
    free(folder->early_text);
    folder->early_log = NULL;
    folder->early_text = NULL;
}

/* What could not be made as a whole goes again: a folder with a part of it would be no
 * run, and in the way of the next one. */
static void take_back(const char *path, bool was_there)
{
    for (size_t i = 0; i < ARRAY_LENGTH(own_files); i++) {
        char *file = file_join(path, own_files[i]);
        (void)unlink(file);
        mem_free(file);
    }
    if (!was_there) {
        (void)rmdir(path);
    }
}

/* The log gets lines from here on, and those that were held. */
bool run_folder_create(struct run_folder *folder, const struct settings *settings,
                       bool overwrites, struct error *err)
{
    if (!run_folder_check(settings, overwrites, err)) {
        return false;
    }
    /* What is not a run was refused above, or is empty and can stay. */
    if (file_exists(settings->run) && is_run(settings->run) &&
        !file_remove_tree(settings->run, err)) {
        return false;
    }
    const bool was_there = file_exists(settings->run);
    folder->path = mem_strdup(settings->run);
    if (!file_make_folders(folder->path, err) ||
        !write_settings(folder->path, settings, err)) {
        goto fail;
    }
    folder->log = open_lines(folder->path, "log.txt", err);
    if (folder->log == NULL) {
        goto fail;
    }
    folder->metrics = open_lines(folder->path, "metrics.jsonl", err);
    if (folder->metrics == NULL) {
        goto fail;
    }
    if (settings->sample.prompts.n > 0) {
        folder->samples = open_lines(folder->path, "samples.jsonl", err);
        if (folder->samples == NULL) {
            goto fail;
        }
    }
    end_early_log(folder);
    log_set_file(folder->log);
    return true;

fail:
    run_folder_close(folder);
    take_back(settings->run, was_there);
    return false;
}

/* For file systems that cannot exchange two names: for an instant there is none. */
static bool replace_by_turns(const char *from, const char *to, struct error *err)
{
    struct str aside = {0};
    str_printf(&aside, "%s.old", to);
    bool done = rename(to, aside.text) == 0 && rename(from, to) == 0;
    if (!done) {
        error_set_errno(err, errno, "cannot replace %s", to);
    }
    done = done && file_remove_tree(aside.text, err);
    str_deinit(&aside);
    return done;
}

/* After the exchange the former folder has the new one's name, and goes. */
static bool replace(const char *from, const char *to, struct error *err)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
        return file_remove_tree(from, err);
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return error_set_errno(err, errno, "cannot replace %s", to);
    }
    return replace_by_turns(from, to, err);
}

bool run_folder_publish(const struct run_folder *folder, const char *from,
                        const char *to, struct error *err)
{
    char *source = file_join(folder->path, from);
    char *target = file_join(folder->path, to);
    bool done = true;
    if (file_exists(target)) {
        done = replace(source, target, err);
    } else if (rename(source, target) != 0) {
        done = error_set_errno(err, errno, "cannot make %s", target);
    }
    mem_free(source);
    mem_free(target);
    return done;
}

void run_folder_note_error(const struct run_folder *folder, const struct error *err)
{
    if (folder->log != NULL) {
        fprintf(folder->log, "%s%s\n", error_prefix(err->kind), err->message);
    }
}

/* Takes NULL. */
static void close_lines(const struct run_folder *folder, FILE *file, const char *name)
{
    if (file == NULL) {
        return;
    }
    const bool lost_lines = ferror(file) != 0;
    if (fclose(file) != 0 || lost_lines) {
        log_warning("%s/%s: not all lines could be written", folder->path, name);
    }
}

/*
 * Lines that could not be written are no reason to stop a run, but somebody will want
 * to know. The metrics go first, while the log can still say so; the log is let go
 * before its file is closed.
 */
void run_folder_close(struct run_folder *folder)
{
    end_early_log(folder);
    close_lines(folder, folder->metrics, "metrics.jsonl");
    close_lines(folder, folder->samples, "samples.jsonl");
    if (folder->log != NULL) {
        log_set_file(NULL);
        fclose(folder->log);
    }
    mem_free(folder->path);
    *folder = (struct run_folder){0};
}
