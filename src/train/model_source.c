/*
 * model_source - see the header.
 */
#include "train/model_source.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "text/tokenizer.h"

/* By a path below the folder, which need not be there. */
static bool has_file(const char *folder, const char *name)
{
    char *path = file_join(folder, name);
    const bool is_there = file_exists(path);
    mem_free(path);
    return is_there;
}

/* A run folder holds a model and is none itself: its config.json is one folder
 * further. An adapter folder changes a model that lies elsewhere. Both are given as
 * models by mistake, where "no config.json" would not say what to do. */
static bool check_path(const char *path, struct error *err)
{
    if (has_file(path, "config.json")) {
        return true;
    }
    const char *slash = str_ends_with(path, "/") ? "" : "/";
    if (has_file(path, "model/config.json")) {
        struct str best = {0};
        if (has_file(path, "best/config.json")) {
            str_printf(&best, ", the one with the lowest held-out loss in %s%sbest",
                       path, slash);
        }
        error_set(err, ERROR_DATA, "%s is a run folder; its model is in %s%smodel%s",
                  path, path, slash, str_text(&best));
        str_deinit(&best);
        return false;
    }
    if (has_file(path, "adapter/adapter_config.json")) {
        return error_set(err, ERROR_DATA,
                         "%s is the run folder of an adapter; give the model that was "
                         "tuned, and --adapter %s%s%s",
                         path, path, slash,
                         has_file(path, "best/adapter_config.json") ? "best"
                                                                    : "adapter");
    }
    if (lora_is_folder(path)) {
        return error_set(
            err, ERROR_DATA,
            "%s is an adapter folder; give the model that it was made for, "
            "and --adapter %s",
            path, path);
    }
    return true;
}

/* A folder or a file, as model_config_read sees it: the name's end says nothing. */
struct tokenizer *model_source_tokenizer(const char *path, struct error *err)
{
    if (!check_path(path, err)) {
        return NULL;
    }
    if (file_is_folder(path)) {
        return tokenizer_read_folder(path, err);
    }
    /* The tokenizer copies what it needs, so the file can be closed at once. */
    struct gguf *gguf = gguf_open(path, err);
    if (gguf == NULL) {
        return NULL;
    }
    struct tokenizer *tokenizer = tokenizer_read_gguf(gguf, err);
    gguf_close(gguf);
    return tokenizer;
}

/* The config comes first: the others are checked against it. */
bool model_source_open(struct model_source *source, const char *path,
                       bool needs_weights, bool needs_tokenizer, struct error *err)
{
    *source = (struct model_source){.path = path};
    if (!check_path(path, err) || !model_config_read(path, &source->config, err)) {
        return false;
    }
    source->params = params_create(&source->config);
    if (needs_weights) {
        source->weights = weights_open(path, &source->config, source->params, err);
        if (source->weights == NULL) {
            goto fail;
        }
    }
    if (needs_tokenizer) {
        source->tokenizer = model_source_tokenizer(path, err);
        if (source->tokenizer == NULL) {
            goto fail;
        }
    }
    return true;

fail:
    model_source_close(source);
    return false;
}

/* In reverse; all of them take NULL. */
void model_source_close(struct model_source *source)
{
    lora_close(source->adapter);
    params_destroy(source->merged_params);
    tokenizer_destroy(source->tokenizer);
    weights_close(source->weights);
    params_destroy(source->params);
    source->tokenizer = NULL;
    source->weights = NULL;
    source->params = NULL;
    source->adapter = NULL;
    source->merged_params = NULL;
}

/* A weights_read_fn over weights and adapter, each by its rows of the table. */
static bool read_either(void *context, int param, int64_t first_row, int64_t n_rows,
                        float *target, struct error *err)
{
    const struct model_source *source = context;
    return param < source->params->n_model
               ? weights_read(source->weights, param, first_row, n_rows, target, err)
               : lora_read(source->adapter, param, first_row, n_rows, target, err);
}

/* The table with the adapter's rows is one of its own: the model that callers see has
 * no adapters. */
bool model_source_open_adapter(struct model_source *source, const char *folder,
                               struct error *err)
{
    ASSERT(source->weights != NULL && source->adapter == NULL);
    struct params *params = params_create(&source->config);
    source->adapter = lora_open(folder, params, err);
    if (source->adapter == NULL) {
        params_destroy(params);
        return false;
    }
    source->merged_params = params;
    return true;
}

bool model_source_read(void *context, int param, int64_t first_row, int64_t n_rows,
                       float *target, struct error *err)
{
    struct model_source *source = context;
    if (source->adapter == NULL) {
        return weights_read(source->weights, param, first_row, n_rows, target, err);
    }
    struct lora_merge merge = {
        .params = source->merged_params, .read = read_either, .context = source};
    return lora_merged_read(&merge, param, first_row, n_rows, target, err);
}

const void *model_source_view(void *context, int param, enum dtype *dtype)
{
    const struct model_source *source = context;
    const bool is_changed =
        source->adapter != NULL &&
        params_adapter(source->merged_params, PARAM_LORA_A, param) >= 0;
    return source->weights == NULL || is_changed
               ? NULL
               : weights_view(source->weights, param, dtype);
}

enum dtype *model_source_dtypes(struct model_source *source)
{
    const struct params *params = source->params;
    enum dtype *stored = mem_alloc_array((size_t)params->n, sizeof(*stored));
    for (int i = 0; i < params->n; i++) {
        enum dtype found = DTYPE_F32;
        stored[i] = model_source_view(source, i, &found) == NULL ? DTYPE_F32 : found;
    }
    params_unify_dtypes(params, stored);
    return stored;
}
