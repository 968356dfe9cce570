/*
 * weights_write - a model as a folder in Hugging Face layout.
 *
 * The folder is built beside its final name and renamed at the end. Parameters go out
 * in the order of the table, a few megabytes at a time. The tied head is the embedding
 * table and is not written a second time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/publish.h"
#include "base/str.h"
#include "model/config.h"
#include "model/config_facts.h"
#include "model/params.h"
#include "model/weights_parts.h"

enum { CHUNK_ELEMENTS = 1 << 20, MAX_CONFIG_BYTES = 16 << 20 };

/* Files of a source folder that belong to the model and are copied as they are. */
static const char *const carried_files[] = {
    "generation_config.json",   "tokenizer.json",     "tokenizer.model",
    "tokenizer_config.json",    "added_tokens.json",  "special_tokens_map.json",
    "chat_template.jinja",      "chat_template.json", "processor_config.json",
    "preprocessor_config.json",
};

/* What one call writes with. */
struct output_state {
    const struct weights_output *output;
    const struct weights *source; /* NULL: no tensors to take names and towers from */
    const char *prefix;           /* of tensor names, in place of "model." */
};

/* If text[at ..] is a key "dtype" or "torch_dtype" with the name of a type as its
 * value, the place of that name and its length; else 0. */
static size_t find_dtype_value(const char *text, size_t at, size_t *length)
{
    static const char *const keys[] = {"\"dtype\"", "\"torch_dtype\""};
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
        if (!str_starts_with(text + at, keys[i])) {
            continue;
        }
        const char *s = text + at + strlen(keys[i]);
        s += strspn(s, " \t\r\n");
        s += *s == ':';
        s += strspn(s, " \t\r\n");
        if (*s == '"') {
            *length = strcspn(s + 1, "\"\\");
            return (size_t)(s + 1 - text);
        }
    }
    return 0;
}

/* In place of parsing and writing: numbers, order and spacing of the file stay as they
 * are. */
char *weights_config_with_dtype(const char *text, enum dtype dtype)
{
    struct str changed = {0};
    size_t kept = 0;
    for (size_t at = 0; text[at] != '\0'; at++) {
        size_t length = 0;
        const size_t value = text[at] == '"' ? find_dtype_value(text, at, &length) : 0;
        if (value > 0) {
            str_add_bytes(&changed, text + kept, value - kept);
            str_add(&changed, config_facts_dtype_name(dtype));
            kept = value + length;
            at = kept - 1; /* the text may end right here */
        }
    }
    str_add(&changed, text + kept);
    return changed.text;
}

/* config.json of the source folder, its dtype changed when another one is written. */
static bool carry_config(const struct output_state *state, const char *from,
                         const char *to, struct error *err)
{
    const struct weights_output *output = state->output;
    if (output->dtype == output->config->dtype) {
        return file_copy(from, to, err);
    }
    size_t length;
    char *text = file_read(from, MAX_CONFIG_BYTES, &length, err);
    if (text == NULL) {
        return false;
    }
    char *changed = weights_config_with_dtype(text, output->dtype);
    const bool done = file_write_atomic(to, changed, strlen(changed), err);
    mem_free(changed);
    mem_free(text);
    return done;
}

/* 15 digits are exact for the short decimals of a config, and write 1e-6 as 1e-6. */
static bool make_config(const struct output_state *state, const char *to,
                        struct error *err)
{
    json_t *root = model_config_to_json(state->output->config, state->output->dtype);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    ASSERT(text != NULL);
    json_decref(root);
    const bool done = file_write_atomic(to, text, strlen(text), err);
    free(text);
    return done;
}

/* The config of the source, or, where there is none, one made from what is known. */
static bool write_config(const struct output_state *state, const char *folder,
                         struct error *err)
{
    const char *source = state->output->source_path;
    char *to = file_join(folder, "config.json");
    char *from = source != NULL ? file_join(source, "config.json") : NULL;
    const bool done = from != NULL && file_exists(from)
                          ? carry_config(state, from, to, err)
                          : make_config(state, to, err);
    mem_free(from);
    mem_free(to);
    return done;
}

/* Tokenizer and generation files, those that the source has. */
static bool carry_files(const char *source, const char *folder, struct error *err)
{
    bool done = true;
    for (size_t i = 0; i < ARRAY_LENGTH(carried_files) && done; i++) {
        char *from = file_join(source, carried_files[i]);
        char *to = file_join(folder, carried_files[i]);
        done = !file_exists(from) || file_copy(from, to, err);
        mem_free(from);
        mem_free(to);
    }
    return done;
}

/* The safetensors entries of all parameters, then of the other tensors; free the names
 * with free_entries. */
static struct safetensors_entry *make_entries(const struct output_state *state,
                                              size_t *n)
{
    const struct params *params = state->output->params;
    const size_t n_params = (size_t)params->n_model;
    const size_t n_others = state->source != NULL ? state->source->n_others : 0;
    *n = n_params + n_others;
    struct safetensors_entry *entries = mem_alloc_array(*n, sizeof(entries[0]));
    for (size_t i = 0; i < n_params; i++) {
        const struct param_info *info = &params->info[i];
        struct str name = {0};
        str_printf(&name, "%s%s", state->prefix, info->name + strlen("model."));
        entries[i] = (struct safetensors_entry){
            .name = name.text,
            .dtype = state->output->dtype,
            .rank = info->rank,
            .dim = {info->dim[0], info->rank > 1 ? info->dim[1] : 0},
        };
    }
    for (size_t i = 0; i < n_others; i++) {
        const struct tensor_view *view = state->source->others[i].view;
        struct safetensors_entry *entry = &entries[n_params + i];
        entry->name = mem_strdup(view->name);
        entry->dtype = view->dtype;
        entry->rank = view->rank;
        memcpy(entry->dim, view->dim, sizeof(entry->dim));
    }
    return entries;
}

/* The names are ours, though the struct has them const. */
static void free_entries(struct safetensors_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mem_free((void *)(uintptr_t)entries[i].name);
    }
    mem_free(entries);
}

/* One parameter, by ranges of rows that fit values[capacity]; n_done counts elements. */
static bool write_param(const struct output_state *state, int param,
                        struct safetensors_writer *writer, float *values,
                        int64_t capacity, void *converted, int64_t *n_done,
                        struct error *err)
{
    const struct weights_output *output = state->output;
    const struct param_info *info = &output->params->info[param];
    /* Whole rows, at least one: weights_read gives nothing smaller. */
    const int64_t rows_at_once = base_max(1, capacity / info->dim[1]);
    for (int64_t row = 0; row < info->dim[0]; row += rows_at_once) {
        const int64_t n_rows = base_min(rows_at_once, info->dim[0] - row);
        const size_t n = (size_t)(n_rows * info->dim[1]);
        if (!output->read(output->context, param, row, n_rows, values, err)) {
            return error_wrap(err, "%s", info->name);
        }
        dtype_from_f32(output->dtype, values, converted, n);
        if (!safetensors_writer_add(writer, converted, n * dtype_bytes(output->dtype),
                                    err)) {
            return false;
        }
        *n_done += (int64_t)n;
        if (output->report != NULL) {
            output->report(output->report_context, *n_done, output->params->n_elements);
        }
    }
    return true;
}

/* All parameters in the order of the table, through two buffers of a few megabytes. */
static bool write_params(const struct output_state *state,
                         struct safetensors_writer *writer, struct error *err)
{
    const struct params *params = state->output->params;
    int64_t capacity = CHUNK_ELEMENTS;
    for (int i = 0; i < params->n_model; i++) {
        capacity = base_max(capacity, params->info[i].dim[1]); /* at least one row */
    }
    const size_t bytes = (size_t)capacity * sizeof(float);
    float *values = mem_try_alloc(bytes, "rows to write", err);
    void *converted = mem_try_alloc(bytes, "rows to write", err);
    bool done = values != NULL && converted != NULL;
    int64_t n_done = 0;
    for (int i = 0; i < params->n_model && done; i++) {
        done = write_param(state, i, writer, values, capacity, converted, &n_done, err);
    }
    mem_free(values);
    mem_free(converted);
    return done;
}

/* Tensors of towers go from one mapped file to the other without conversion. */
static bool write_others(const struct weights *source,
                         struct safetensors_writer *writer, struct error *err)
{
    for (size_t i = 0; source != NULL && i < source->n_others; i++) {
        const struct tensor_view *view = source->others[i].view;
        if (!safetensors_writer_add(writer, view->bytes, view->n_bytes, err)) {
            return false;
        }
        safetensors_drop(source->others[i].file, view, 0, view->n_bytes);
    }
    return true;
}

/* model.safetensors: the entries first, then the bytes in the same order. */
static bool write_tensors(const struct output_state *state, const char *folder,
                          struct error *err)
{
    size_t n;
    struct safetensors_entry *entries = make_entries(state, &n);
    char *path = file_join(folder, "model.safetensors");
    struct safetensors_writer *writer =
        safetensors_writer_open(path, entries, n, NULL, 0, err);
    bool done = writer != NULL;
    if (done && (!write_params(state, writer, err) ||
                 !write_others(state->source, writer, err))) {
        safetensors_writer_abort(writer);
        done = false;
    }
    done = done && safetensors_writer_commit(writer, err);
    mem_free(path);
    free_entries(entries, n);
    return done;
}

/* generation_config.json of a GGUF source: which tokens begin and end a text. Sampling
 * settings are nothing that such a file holds. */
static bool make_generation_config(const struct model_config *config,
                                   const char *folder, struct error *err)
{
    struct str text = {0};
    struct json_write json = {.out = &text};
    json_write_begin(&json, NULL, '{');
    json_write_bool(&json, "_from_model_config", true);
    json_write_integer(&json, "bos_token_id", config->bos_id);
    json_write_begin(&json, "eos_token_id", '[');
    for (int i = 0; i < config->n_eos; i++) {
        json_write_integer(&json, NULL, config->eos_id[i]);
    }
    json_write_end(&json);
    json_write_integer(&json, "pad_token_id", config->pad_id);
    json_write_end(&json);
    str_add_char(&text, '\n');
    char *path = file_join(folder, "generation_config.json");
    const bool done = file_write_atomic(path, text.text, text.length, err);
    mem_free(path);
    str_deinit(&text);
    return done;
}

/* What a folder has as files and a GGUF file inside. */
static bool make_files(const struct weights_output *output, const char *folder,
                       struct error *err)
{
    if (!make_generation_config(output->config, folder, err)) {
        return false;
    }
    if (output->write_tokenizer == NULL) {
        log_note("%s: its tokenizer is not written", output->source_path);
        return true;
    }
    return output->write_tokenizer(output->source_path, folder, err);
}

/* The weights come last: they take the time, and nothing before them may fail late. */
static bool write_everything(void *context, const char *folder, struct error *err)
{
    const struct output_state *state = context;
    const char *source = state->output->source_path;
    if (!write_config(state, folder, err)) {
        return false;
    }
    if (source != NULL && file_is_folder(source)) {
        if (!carry_files(source, folder, err)) {
            return false;
        }
    } else if (source != NULL && !make_files(state->output, folder, err)) {
        return false;
    }
    return write_tensors(state, folder, err);
}

/* Whether folder/name is a file. */
static bool has_file(const char *folder, const char *name)
{
    char *path = file_join(folder, name);
    const bool is_there = file_exists(path);
    mem_free(path);
    return is_there;
}

/* Opens the source for its names and towers when it is a folder that has tensors. */
static bool open_source(const struct weights_output *output, struct weights **source,
                        struct error *err)
{
    const char *path = output->source_path;
    *source = NULL;
    if (path == NULL || (!has_file(path, "model.safetensors") &&
                         !has_file(path, "model.safetensors.index.json"))) {
        return true;
    }
    *source = weights_open_quietly(path, output->config, output->params, err);
    return *source != NULL;
}

/* What stands in place of "model." in the names: as in the source's tensors, or, where
 * it has none (a model made from its config alone), as its config asks for. */
static const char *choose_prefix(const struct weights_output *output,
                                 const struct weights *source)
{
    if (source != NULL) {
        return source->prefix;
    }
    bool is_nested = false;
    if (output->source_path != NULL && has_file(output->source_path, "config.json")) {
        char *path = file_join(output->source_path, "config.json");
        struct error ignored;
        json_t *root = json_read_file(path, MAX_CONFIG_BYTES, &ignored);
        is_nested = json_object_get(root, "text_config") != NULL;
        json_decref(root);
        mem_free(path);
    }
    return is_nested ? "model.language_model." : "model.";
}

/* The source is opened first: what it says about names holds for all tensors. */
bool weights_write_folder(const char *path, const struct weights_output *output,
                          struct error *err)
{
    ASSERT(dtype_is_float(output->dtype) && output->dtype != DTYPE_F64);
    struct weights_output final = *output;
    if (final.source_path != NULL && !file_exists(final.source_path)) {
        log_warning("%s: is gone; its config and tokenizer files are not carried over",
                    final.source_path);
        final.source_path = NULL;
    }
    struct weights *source = NULL;
    if (!open_source(&final, &source, err)) {
        return false;
    }
    struct output_state state = {&final, source, choose_prefix(&final, source)};
    const bool done = publish_folder(path, "the model", write_everything, &state, err);
    weights_close(source);
    return done;
}
