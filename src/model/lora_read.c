/*
 * lora_read - an adapter folder in PEFT layout.
 *
 * The tensors say which weights have adapters: target_modules may be a list or an
 * expression and is not interpreted. Of the config, what changes the meaning of the
 * tensors is taken or refused; a key that is not known here and says something gives a
 * warning.
 */
#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/safetensors.h"
#include "model/lora_parts.h"
#include "model/params.h"

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_RANK = 1 << 20 };

/* As of the setting lora.alpha: a larger one is a slip, or a damaged file. */
static const double MAX_ALPHA = 1.0e6;

struct lora {
    struct arena *arena; /* owns strings and lists */
    struct safetensors *file;
    const struct params *params;       /* borrowed, with the adapters */
    const struct tensor_view **places; /* [rows of adapters], by index - n_model */
    struct lora_options options;
    const char *base_name; /* "" if the config has none */
};

/* ---- the config ---- */

/* Keys that ask for more than B A: they must be null, false, 0 or empty. */
static const char *const refused_keys[] = {
    "use_dora",          "fan_in_fan_out",
    "modules_to_save",   "rank_pattern",
    "alpha_pattern",     "layer_replication",
    "target_parameters", "trainable_token_indices",
    "lora_bias",         "use_qalora",
    "megatron_config",   "alora_invocation_tokens",
    "use_bdlora",        "arrow_config",
};

/* Keys that say nothing about the tensors, or only how they were begun. */
static const char *const harmless_keys[] = {
    "peft_type",
    "task_type",
    "r",
    "lora_alpha",
    "lora_dropout",
    "use_rslora",
    "target_modules",
    "exclude_modules",
    "bias",
    "base_model_name_or_path",
    "auto_mapping",
    "revision",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "megatron_core",
    "peft_version",
    "runtime_config",
    "ensure_weight_tying",
    "corda_config",
    "eva_config",
    "loftq_config",
    "lora_ga_config",
    "qalora_group_size",
};

static bool is_in(const char *key, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* null, false, 0, "", [], {} */
static bool says_nothing(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0.0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Ways to begin that change the base weights: such adapters belong to a model that is
 * not the one their config names. */
static bool check_start(const json_t *root, const char *where, struct error *err)
{
    static const char *const refused[] = {"pissa", "olora", "corda", "loftq",
                                          "lora_ga"};
    const char *start = json_string_value(json_object_get(root, "init_lora_weights"));
    for (size_t i = 0; start != NULL && i < ARRAY_LENGTH(refused); i++) {
        if (str_starts_with(start, refused[i])) {
            return error_set(
                err, ERROR_DATA,
                "%s: init_lora_weights is \"%s\", which changes the base "
                "weights as well; save the adapter converted to plain LoRA",
                where, start);
        }
    }
    return true;
}

/* Everything in the config that is not plain LoRA. */
static bool check_features(json_t *root, const char *where, struct error *err)
{
    const char *type = json_string_value(json_object_get(root, "peft_type"));
    if (type == NULL || strcmp(type, "LORA") != 0) {
        return error_set(err, ERROR_DATA, "%s: peft_type is %s, expected LORA", where,
                         type == NULL ? "missing" : type);
    }
    const char *bias = json_string_value(json_object_get(root, "bias"));
    if (bias != NULL && strcmp(bias, "none") != 0) {
        return error_set(err, ERROR_DATA,
                         "%s: bias is \"%s\"; Gemma has no biases, expected \"none\"",
                         where, bias);
    }
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (says_nothing(value)) {
            continue;
        }
        if (is_in(key, refused_keys, ARRAY_LENGTH(refused_keys))) {
            return error_set(err, ERROR_DATA,
                             "%s: %s is set, which lathe does not do; merge the "
                             "adapter into its model with the program that made it",
                             where, key);
        }
        if (!is_in(key, harmless_keys, ARRAY_LENGTH(harmless_keys))) {
            log_warning("%s: %s is not known and not looked at", where, key);
        }
    }
    return check_start(root, where, err);
}

/* lora_dropout and use_rslora may be left out, as PEFT has defaults for them. */
static bool read_numbers(struct lora *lora, const json_t *root, const char *where,
                         struct error *err)
{
    struct lora_options *options = &lora->options;
    if (!json_need_integer(root, "r", where, 1, MAX_RANK, &options->rank, err) ||
        !json_need_number(root, "lora_alpha", where, &options->alpha, err)) {
        return false;
    }
    const json_t *dropout = json_object_get(root, "lora_dropout");
    if (!says_nothing(dropout) &&
        !json_need_number(root, "lora_dropout", where, &options->dropout, err)) {
        return false;
    }
    options->is_rank_stabilised = json_is_true(json_object_get(root, "use_rslora"));
    if (!(options->alpha > 0.0 && options->alpha <= MAX_ALPHA) ||
        !(options->dropout >= 0.0 && options->dropout < 1.0)) {
        return error_set(err, ERROR_DATA,
                         "%s: lora_alpha is %g and lora_dropout %g, expected a number "
                         "above 0, %g at most, and one from 0 to below 1",
                         where, options->alpha, options->dropout, MAX_ALPHA);
    }
    const char *base =
        json_string_value(json_object_get(root, "base_model_name_or_path"));
    lora->base_name = arena_strdup(lora->arena, base == NULL ? "" : base);
    return true;
}

static bool read_config(struct lora *lora, const char *path, struct error *err)
{
    json_t *root = json_read_file(path, MAX_CONFIG_BYTES, err);
    if (root == NULL) {
        return false;
    }
    bool done = json_is_object(root);
    if (!done) {
        error_set(err, ERROR_DATA, "%s: expected an object", path);
    }
    done =
        done && check_features(root, path, err) && read_numbers(lora, root, path, err);
    json_decref(root);
    return done;
}

/* ---- the tensors ---- */

/* What a tensor's name says. */
struct tensor_place {
    int base;             /* the weight that it belongs to */
    enum param_role side; /* PARAM_LORA_A or _B */
};

/* "model.layers.3.mlp.up_proj" of a name in the file without its matrix, or NULL. */
static const char *module_name(const char *name, struct str *scratch)
{
    /* Longest first: "model." is a prefix of another one. */
    static const char *const prefixes[] = {
        LORA_PREFIX "model.language_model.",
        LORA_PREFIX "language_model.model.",
        LORA_PREFIX "model.",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(prefixes); i++) {
        if (str_starts_with(name, prefixes[i])) {
            str_clear(scratch);
            str_printf(scratch, "model.%s", name + strlen(prefixes[i]));
            return scratch->text;
        }
    }
    return NULL;
}

/* False for a tensor that is no matrix of an adapter of this model. */
static bool find_place(const struct params *params, const char *name,
                       struct tensor_place *place, struct str *scratch)
{
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    if (module_name(name, scratch) == NULL) {
        return false;
    }
    for (int side = 0; side < 2; side++) {
        if (!str_ends_with(scratch->text, ends[side])) {
            continue;
        }
        scratch->length -= strlen(ends[side]);
        scratch->text[scratch->length] = '\0';
        str_add(scratch, ".weight");
        place->base = params_find(params, scratch->text);
        place->side = side == 0 ? PARAM_LORA_A : PARAM_LORA_B;
        return place->base >= 0 && place->base < params->n_model &&
               lora_is_adaptable(&params->info[place->base]);
    }
    return false;
}

/* Which weights have adapters; A without B and the like are found afterwards, by what
 * is missing. */
static bool find_weights(const struct lora *lora, const struct params *params,
                         const char *path, bool *has_adapter, struct error *err)
{
    struct str scratch = {0};
    bool done = true;
    for (size_t i = 0; i < safetensors_count(lora->file) && done; i++) {
        const struct tensor_view *view = safetensors_at(lora->file, i);
        struct tensor_place place;
        done = find_place(params, view->name, &place, &scratch);
        if (!done) {
            error_set(err, ERROR_DATA,
                      "%s: tensor %s is no LoRA matrix of a layer of this model", path,
                      view->name);
        } else {
            has_adapter[place.base] = true;
        }
    }
    str_deinit(&scratch);
    if (done && safetensors_count(lora->file) == 0) {
        done = error_set(err, ERROR_DATA, "%s: no tensors", path);
    }
    return done;
}

/* One value that is no number would spoil every weight that it is added to. */
static bool check_values(const struct tensor_view *view, const char *path,
                         struct error *err)
{
    float values[512];
    const int64_t n = view->dim[0] * view->dim[1];
    int64_t n_taken;
    for (int64_t from = 0; from < n; from += n_taken) {
        n_taken = base_min(n - from, (int64_t)ARRAY_LENGTH(values));
        tensor_view_to_f32(view, from, n_taken, values);
        for (int64_t i = 0; i < n_taken; i++) {
            if (!isfinite(values[i])) {
                return error_set(err, ERROR_DATA,
                                 "%s: tensor %s: value [%lld, %lld] is not finite; its "
                                 "training has diverged, or the file is damaged",
                                 path, view->name,
                                 (long long)((from + i) / view->dim[1]),
                                 (long long)((from + i) % view->dim[1]));
            }
        }
    }
    return true;
}

/* The tensor is what the table has at this row. */
static bool check_tensor(const struct param_info *info, const struct tensor_view *view,
                         const char *path, struct error *err)
{
    char found[100];
    char expected[100];
    if (view->rank != 2 || view->dim[0] != info->dim[0] ||
        view->dim[1] != info->dim[1]) {
        return error_set(err, ERROR_DATA, "%s: tensor %s has shape %s, expected %s",
                         path, view->name,
                         tensor_view_format_shape(found, view->rank, view->dim),
                         tensor_view_format_shape(expected, 2, info->dim));
    }
    if (!dtype_is_float(view->dtype) || view->dtype == DTYPE_F64) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s is of type %s, expected f32, bf16 or f16", path,
                         view->name, dtype_name(view->dtype));
    }
    return check_values(view, path, err);
}

/* Fills the places. A tensor can be there twice under two prefixes. */
static bool place_tensors(struct lora *lora, const char *path, struct error *err)
{
    const struct params *params = lora->params;
    struct str scratch = {0};
    bool done = true;
    for (size_t i = 0; i < safetensors_count(lora->file) && done; i++) {
        const struct tensor_view *view = safetensors_at(lora->file, i);
        struct tensor_place place;
        ASSERT(find_place(params, view->name, &place, &scratch));
        const int param = params_adapter(params, place.side, place.base);
        const struct tensor_view **slot = &lora->places[param - params->n_model];
        done = *slot == NULL
                   ? check_tensor(&params->info[param], view, path, err)
                   : error_set(err, ERROR_DATA, "%s: tensor %s is there twice", path,
                               params->info[param].name);
        *slot = view;
    }
    for (int i = params->n_model; i < params->n && done; i++) {
        done = lora->places[i - params->n_model] != NULL ||
               error_set(err, ERROR_DATA, "%s: tensor " LORA_PREFIX "%s is missing",
                         path, params->info[i].name);
    }
    str_deinit(&scratch);
    return done;
}

/* Whole names, so that lora_attach makes the same rows. */
static void list_targets(struct lora *lora)
{
    const struct params *params = lora->params;
    const char **targets = arena_alloc_array(
        lora->arena, (size_t)(params->n - params->n_model), sizeof(*targets));
    for (int i = params->n_model; i < params->n; i++) {
        if (params->info[i].role == PARAM_LORA_A) {
            targets[lora->options.n_targets++] =
                params->info[params->info[i].base].name;
        }
    }
    lora->options.targets = targets;
}

/* Rows are added to the table once the names are known to be good. */
static bool open_tensors(struct lora *lora, struct params *params, const char *path,
                         struct error *err)
{
    lora->file = safetensors_open(path, err);
    if (lora->file == NULL) {
        return false;
    }
    bool *has_adapter = mem_alloc_array((size_t)params->n_model, sizeof(bool));
    bool done = find_weights(lora, params, path, has_adapter, err);
    if (done) {
        params_add_adapters(params, has_adapter, lora->options.rank,
                            lora_scale(&lora->options));
        lora->places = arena_alloc_array(
            lora->arena, (size_t)(params->n - params->n_model), sizeof(*lora->places));
        done = place_tensors(lora, path, err);
    }
    mem_free(has_adapter);
    if (done) {
        list_targets(lora);
    }
    return done;
}

bool lora_is_folder(const char *path)
{
    char *config = file_join(path, LORA_CONFIG_FILE);
    const bool is_there = file_exists(config);
    mem_free(config);
    return is_there;
}

/* A folder without the config may be a model: the message says what was looked for. */
struct lora *lora_open(const char *folder, struct params *params, struct error *err)
{
    ASSERT(params == NULL || params->n == params->n_model);
    struct arena *arena = arena_create();
    struct lora *lora = arena_alloc(arena, sizeof(*lora));
    lora->arena = arena;
    lora->params = params;
    char *config = file_join(folder, LORA_CONFIG_FILE);
    char *tensors = file_join(folder, LORA_TENSORS_FILE);
    bool done = lora_is_folder(folder) ||
                error_set(err, ERROR_NOT_FOUND,
                          "%s: no " LORA_CONFIG_FILE " in there: expected an adapter "
                          "folder in PEFT layout",
                          folder);
    done = done && read_config(lora, config, err) &&
           (params == NULL || open_tensors(lora, params, tensors, err));
    mem_free(config);
    mem_free(tensors);
    if (!done) {
        lora_close(lora);
        return NULL;
    }
    return lora;
}

/* The struct itself lives in its arena. */
void lora_close(struct lora *lora)
{
    if (lora != NULL) {
        safetensors_close(lora->file);
        arena_destroy(lora->arena);
    }
}

const struct lora_options *lora_options_of(const struct lora *lora)
{
    return &lora->options;
}

const char *lora_base_name(const struct lora *lora)
{
    return lora->base_name;
}

bool lora_read(void *context, int param, int64_t first_row, int64_t n_rows,
               float *target, struct error *err)
{
    (void)err; /* the file is mapped: nothing is left that could fail */
    const struct lora *lora = context;
    const struct params *params = lora->params;
    ASSERT(params->n_model <= param && param < params->n);
    const struct param_info *info = &params->info[param];
    ASSERT(0 <= first_row && 0 <= n_rows && first_row <= info->dim[0] - n_rows);
    tensor_view_to_f32(lora->places[param - params->n_model], first_row * info->dim[1],
                       n_rows * info->dim[1], target);
    return true;
}
