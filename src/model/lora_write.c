/*
 * lora_write - an adapter folder in PEFT layout, as PEFT itself writes it.
 */
#include "model/lora.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/publish.h"
#include "base/str.h"
#include "formats/safetensors.h"
#include "model/lora_parts.h"
#include "model/params.h"

/* ---- target_modules ---- */

/* The role is adapted in every layer that has it: its short name means just these. */
static bool is_whole_role(const struct params *params, enum param_role role)
{
    for (int i = 0; i < params->n_model; i++) {
        const struct param_info *info = &params->info[i];
        if (info->role == role && params_adapter(params, PARAM_LORA_A, i) < 0) {
            return false;
        }
    }
    return true;
}

/* Name of a module as PEFT sees it: "model.layers.3.mlp.up_proj". */
static void add_module_name(struct str *out, const struct lora_output *output,
                            const struct param_info *weight)
{
    str_clear(out);
    str_printf(out, "%s%s", output->prefix, weight->name + strlen("model."));
    out->length -= strlen(".weight");
    out->text[out->length] = '\0';
}

/*
 * Short names where they are enough. They would also mean modules of a vision tower,
 * so a model that may have one gets whole names, as do roles of some layers only.
 */
static json_t *list_modules(const struct lora_output *output)
{
    const struct params *params = output->params;
    json_t *modules = json_array();
    bool is_listed[PARAM_ROLE_COUNT] = {false};
    struct str name = {0};
    for (int i = params->n_model; i < params->n; i++) {
        const struct param_info *weight = &params->info[params->info[i].base];
        if (params->info[i].role == PARAM_LORA_B || is_listed[weight->role]) {
            continue;
        }
        if (strcmp(output->prefix, "model.") == 0 &&
            is_whole_role(params, weight->role)) {
            is_listed[weight->role] = true;
            str_clear(&name);
            lora_add_short_name(&name, weight->role);
        } else {
            add_module_name(&name, output, weight);
        }
        json_array_append_new(modules, json_string(name.text));
    }
    str_deinit(&name);
    return modules;
}

/* Keys in the order in which PEFT writes them, which is that of the alphabet. */
static bool write_config(const struct lora_output *output, const char *folder,
                         struct error *err)
{
    const struct lora_options *options = output->options;
    json_t *root = json_pack(
        "{s:n, s:s, s:s, s:b, s:b, s:b, s:f, s:f, s:n, s:s, s:I, s:n, s:o, s:s, s:b, "
        "s:b}",
        "auto_mapping", "base_model_name_or_path", output->base_path, "bias", "none",
        "fan_in_fan_out", 0, "inference_mode", 1, "init_lora_weights", 1, "lora_alpha",
        options->alpha, "lora_dropout", options->dropout, "modules_to_save",
        "peft_type", "LORA", "r", (json_int_t)options->rank, "revision",
        "target_modules", list_modules(output), "task_type", "CAUSAL_LM", "use_dora", 0,
        "use_rslora", (int)options->is_rank_stabilised);
    if (root == NULL) {
        return error_set(err, ERROR_USAGE, "%s: the name is not UTF-8",
                         output->base_path);
    }
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    ASSERT(text != NULL);
    json_decref(root);
    char *path = file_join(folder, LORA_CONFIG_FILE);
    const bool done = file_write_atomic(path, text, strlen(text), err);
    mem_free(path);
    free(text);
    return done;
}

/* ---- tensors ---- */

/* "base_model.model.model.layers.3.mlp.up_proj.lora_A.weight" and so on, in the order
 * of the table; names are freed with the entries. */
static struct safetensors_entry *make_entries(const struct lora_output *output,
                                              size_t *n)
{
    const struct params *params = output->params;
    *n = (size_t)(params->n - params->n_model);
    struct safetensors_entry *entries = mem_alloc_array(*n, sizeof(*entries));
    for (size_t i = 0; i < *n; i++) {
        const struct param_info *info = &params->info[params->n_model + (int)i];
        struct str name = {0};
        str_printf(&name, LORA_PREFIX "%s%s", output->prefix,
                   info->name + strlen("model."));
        entries[i] = (struct safetensors_entry){.name = name.text,
                                                .dtype = output->dtype,
                                                .rank = 2,
                                                .dim = {info->dim[0], info->dim[1]}};
    }
    return entries;
}

/* One matrix at a time: they are thin. */
static bool write_matrix(const struct lora_output *output, int param,
                         struct safetensors_writer *writer, struct error *err)
{
    const struct param_info *info = &output->params->info[param];
    const size_t n = (size_t)info->n_elements;
    float *values = mem_try_alloc(n * sizeof(float), info->name, err);
    void *converted =
        values == NULL ? NULL
                       : mem_try_alloc(n * dtype_bytes(output->dtype), info->name, err);
    bool done = converted != NULL &&
                output->read(output->context, param, 0, info->dim[0], values, err);
    if (done) {
        dtype_from_f32(output->dtype, values, converted, n);
        done = safetensors_writer_add(writer, converted, n * dtype_bytes(output->dtype),
                                      err);
    }
    mem_free(values);
    mem_free(converted);
    return done;
}

/* The note is what PEFT and transformers look for before they load a file. */
static bool write_tensors(const struct lora_output *output, const char *folder,
                          struct error *err)
{
    size_t n;
    struct safetensors_entry *entries = make_entries(output, &n);
    char *path = file_join(folder, LORA_TENSORS_FILE);
    const struct safetensors_note notes[] = {{"format", "pt"}};
    struct safetensors_writer *writer =
        safetensors_writer_open(path, entries, n, notes, ARRAY_LENGTH(notes), err);
    bool done = writer != NULL;
    for (int i = output->params->n_model; i < output->params->n && done; i++) {
        done = write_matrix(output, i, writer, err);
    }
    if (writer != NULL && !done) {
        safetensors_writer_abort(writer);
    }
    done = done && safetensors_writer_commit(writer, err);
    for (size_t i = 0; i < n; i++) {
        mem_free((void *)(uintptr_t)entries[i].name);
    }
    mem_free(entries);
    mem_free(path);
    return done;
}

/* A publish_fill_fn. */
static bool fill(void *context, const char *folder, struct error *err)
{
    const struct lora_output *output = context;
    return write_config(output, folder, err) && write_tensors(output, folder, err);
}

bool lora_write_folder(const char *path, const struct lora_output *output,
                       struct error *err)
{
    ASSERT(output->params->n > output->params->n_model);
    ASSERT(dtype_is_float(output->dtype) && output->dtype != DTYPE_F64);
    struct lora_output copy = *output;
    return publish_folder(path, "the adapter", fill, &copy, err);
}
