/*
 * model_copy - see the header.
 */
#include "app/model_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/tokenizer_write.h"
#include "train/model_source.h"
#include "train/progress.h"

/* Models below this size are written in a moment: progress would only flicker. */
enum { PROGRESS_BYTES = 64 << 20 };

/* One model on its way. */
struct copying {
    struct model_source source;
    enum dtype dtype;
    int64_t n_bytes; /* of the tensors to be written */
    struct progress progress;
    int64_t n_shown; /* the last figure given to progress */
};

bool model_copy_has_file(const char *folder, const char *name)
{
    char *path = file_join(folder, name);
    const bool is_there = file_exists(path);
    mem_free(path);
    return is_there;
}

/* One name is taken away after the other. */
char *model_copy_existing_parent(const char *path)
{
    char *parent = mem_strdup(path);
    while (!file_is_folder(parent)) {
        char *slash = strrchr(parent, '/');
        if (slash == NULL || slash == parent) {
            strcpy(parent, slash == NULL ? "." : "/");
            break;
        }
        *slash = '\0';
    }
    return parent;
}

/* A name that no folder can get, told before any work: none at all, or that of a link to
 * something that is not there, which a rename does not follow. */
static bool check_name(const char *to, struct error *err)
{
    struct stat status;
    if (to[0] == '\0') {
        return error_set(err, ERROR_USAGE,
                         "the folder to write has an empty name; name a new folder");
    }
    if (!file_exists(to) && lstat(to, &status) == 0) {
        return error_set(err, ERROR_USAGE,
                         "%s: is a link to something that is not there; remove it or "
                         "name another folder",
                         to);
    }
    return true;
}

/* By real paths: "m/", "./m" and a link to m are one folder. A folder `to` that is not
 * there is where its nearest parent is. */
bool model_copy_check_apart(const char *from, const char *to, struct error *err)
{
    if (!check_name(to, err)) {
        return false;
    }
    char *parent = model_copy_existing_parent(to);
    char *inner = realpath(parent, NULL);
    char *outer = file_is_folder(from) ? realpath(from, NULL) : NULL;
    mem_free(parent);
    bool is_inside = false;
    if (inner != NULL && outer != NULL) {
        const size_t length = strlen(outer);
        is_inside = strncmp(inner, outer, length) == 0 &&
                    (inner[length] == '/' || inner[length] == '\0');
    }
    free(inner);
    free(outer);
    return !is_inside ||
           error_set(err, ERROR_USAGE,
                     "%s lies in %s, which it is made from; name a folder elsewhere",
                     to, from);
}

/* What people give in place of a model, with the command that takes it. */
static bool check_source(const struct model_copy *copy, struct error *err)
{
    const char *from = copy->from;
    if (!file_exists(from)) {
        return error_set(err, ERROR_NOT_FOUND, "%s: no such file or folder", from);
    }
    if (!file_is_folder(from) || model_copy_has_file(from, "config.json")) {
        return true;
    }
    if (model_copy_has_file(from, "run.yaml")) {
        return error_set(err, ERROR_USAGE,
                         "%s: is a run, not a model; use lathe export %s %s", from,
                         from, copy->to);
    }
    if (model_copy_has_file(from, "adapter_config.json")) {
        return error_set(err, ERROR_USAGE,
                         "%s: is an adapter, not a model; use lathe convert MODEL %s "
                         "--adapter %s",
                         from, copy->to, from);
    }
    return error_set(err, ERROR_DATA,
                     "%s: no config.json in this folder; expected a model in Hugging "
                     "Face layout or a .gguf file",
                     from);
}

/* The type asked for, or the model's own. */
static bool choose_dtype(const struct model_copy *copy, struct copying *copying,
                         struct error *err)
{
    copying->dtype = copying->source.config.dtype;
    if (copy->dtype == NULL) {
        return true;
    }
    if (!dtype_from_name(copy->dtype, &copying->dtype) ||
        (copying->dtype != DTYPE_F32 && copying->dtype != DTYPE_BF16 &&
         copying->dtype != DTYPE_F16)) {
        return error_set(err, ERROR_USAGE, "--dtype %s: expected f32, bf16 or f16",
                         copy->dtype);
    }
    return true;
}

/* A disk that fills up at the end would cost the time: it is told at the start. */
static bool check_room(const struct model_copy *copy, const struct copying *copying,
                       struct error *err)
{
    char *parent = model_copy_existing_parent(copy->to);
    const bool done = file_check_room(parent, (size_t)copying->n_bytes, copy->to, err);
    mem_free(parent);
    return done;
}

/* In mebibytes, which people can compare with what the disk gives. */
static void report(void *context, int64_t done, int64_t total)
{
    struct copying *copying = context;
    const int64_t bytes = (int64_t)dtype_bytes(copying->dtype);
    (void)total;
    const int64_t n_mib = done * bytes >> 20;
    if (n_mib > copying->n_shown) {
        copying->n_shown = n_mib;
        progress_update(&copying->progress, n_mib, "");
    }
}

/* A weights_read_fn that ends the copy when somebody asks for it: then nothing stays
 * behind, as after any other failure. */
static bool read_rows(void *context, int param, int64_t first_row, int64_t n_rows,
                      float *target, struct error *err)
{
    struct copying *copying = context;
    return interrupt_check(err) &&
           model_source_read(&copying->source, param, first_row, n_rows, target, err);
}

static bool write_model(const struct model_copy *copy, struct copying *copying,
                        struct error *err)
{
    const bool is_large = copying->n_bytes >= PROGRESS_BYTES;
    const struct weights_output output = {
        .config = &copying->source.config,
        .params = copying->source.params,
        .dtype = copying->dtype,
        .read = read_rows,
        .context = copying,
        .source_path = copy->from,
        .write_tokenizer = tokenizer_write_from,
        .report = is_large ? report : NULL,
        .report_context = copying,
    };
    if (is_large) {
        progress_begin_in(&copying->progress, stderr, "writing", copying->n_bytes >> 20,
                          "MiB");
    }
    const bool done = weights_write_folder(copy->to, &output, err);
    if (is_large) {
        progress_end(&copying->progress);
    }
    return done;
}

bool model_copy_run(const struct model_copy *copy, struct error *err)
{
    struct copying copying = {0};
    if (!check_source(copy, err) ||
        !model_copy_check_apart(copy->from, copy->to, err) ||
        !model_source_open(&copying.source, copy->from, true, false, err)) {
        return false;
    }
    bool done = choose_dtype(copy, &copying, err) &&
                (copy->adapter == NULL ||
                 model_source_open_adapter(&copying.source, copy->adapter, err));
    if (done) {
        copying.n_bytes =
            copying.source.params->n_elements * (int64_t)dtype_bytes(copying.dtype);
        done = check_room(copy, &copying, err) && write_model(copy, &copying, err);
    }
    if (done) {
        char size[24];
        printf("%s: %s, %lld parameters, %s, %s%s\n", copy->to,
               model_family_name(copying.source.config.family),
               (long long)copying.source.params->n_elements, dtype_name(copying.dtype),
               str_format_bytes(size, (double)copying.n_bytes),
               copy->adapter == NULL ? "" : ", adapter merged");
    }
    model_source_close(&copying.source);
    return done;
}
