/*
 * weights - see weights.h. Here: folders of safetensors files, and reading rows.
 *
 * Names in files differ in their prefix only: "model." in text-only exports,
 * "model.language_model." in the published multimodal checkpoints.
 */
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/params.h"
#include "model/weights_parts.h"

enum {
    MAX_INDEX_BYTES = 64 << 20,
    DROP_BYTES = 1 << 20 /* ranges from this size on are dropped after reading */
};

/* Longest first: "model." is a prefix of another one. */
static const char *const prefixes[] = {
    "model.language_model.",
    "language_model.model.",
    "model.",
};

/* What follows these (after an optional "model.") is no part of the text model. */
static const char *const tower_prefixes[] = {
    "vision_tower.",          "audio_tower.",     "embed_vision.",   "embed_audio.",
    "multi_modal_projector.", "vision_embedder.", "audio_embedder.",
};

/* Counts a name, and keeps it for the message while there are few and they fit. */
void weights_names_add(struct weights_names *names, const char *name)
{
    const size_t used = strlen(names->first);
    if (names->n < 3 && used + strlen(name) + 3 < sizeof(names->first)) {
        snprintf(names->first + used, sizeof(names->first) - used, "%s%s",
                 used > 0 ? ", " : "", name);
    }
    names->n++;
}

/* Shapes are compared as the table has them: outermost dimension first. */
bool weights_check_tensor(const struct weights *weights, int param, const char *name,
                          int rank, const int64_t *dim, bool is_placed,
                          struct error *err)
{
    const struct param_info *info = &weights->params->info[param];
    if (is_placed) {
        return error_set(err, ERROR_DATA, "%s: tensor %s is there twice (second: %s)",
                         weights->path, info->name, name);
    }
    bool fits = rank == info->rank;
    for (int i = 0; i < rank && fits; i++) {
        fits = dim[i] == info->dim[i];
    }
    if (!fits) {
        char found[100];
        char expected[100];
        return error_set(err, ERROR_DATA, "%s: tensor %s has shape %s, expected %s",
                         weights->path, name,
                         tensor_view_format_shape(found, rank, dim),
                         tensor_view_format_shape(expected, info->rank, info->dim));
    }
    return true;
}

/* K and V of a layer that uses those of another: in published files, never used. */
static bool is_shared_leftover(const struct weights *weights, const char *canonical)
{
    int layer;
    int end = 0;
    if (sscanf(canonical, "model.layers.%d.%n", &layer, &end) != 1 || end == 0 ||
        layer < 0 || layer >= weights->config->L ||
        model_config_owns_kv(weights->config, layer)) {
        return false;
    }
    const char *rest = canonical + end;
    return strcmp(rest, params_role_name(PARAM_K)) == 0 ||
           strcmp(rest, params_role_name(PARAM_V)) == 0 ||
           strcmp(rest, params_role_name(PARAM_K_NORM)) == 0;
}

/* Vision and audio parts, which published files hold beside the text model. */
static bool is_tower(const char *name)
{
    const char *rest = str_starts_with(name, "model.") ? name + strlen("model.") : name;
    for (size_t i = 0; i < ARRAY_LENGTH(tower_prefixes); i++) {
        if (str_starts_with(rest, tower_prefixes[i])) {
            return true;
        }
    }
    return false;
}

/* Remembered for the writer, which copies such tensors into the model that it makes. */
static void keep_other(struct weights *weights, struct weights_place place)
{
    weights->others = mem_reserve_one(weights->others, weights->n_others,
                                      &weights->others_capacity, sizeof(place));
    weights->others[weights->n_others++] = place;
}

/* The index of the parameter called `name` in a file, or -1; *prefix is how it began
 * and `canonical` its name in the table, or what it would be. */
static int find_param(const struct weights *weights, const char *name,
                      const char **prefix, struct str *canonical)
{
    str_clear(canonical);
    for (size_t i = 0; i < ARRAY_LENGTH(prefixes); i++) {
        if (str_starts_with(name, prefixes[i])) {
            *prefix = prefixes[i];
            str_printf(canonical, "model.%s", name + strlen(prefixes[i]));
            const int param = params_find(weights->params, canonical->text);
            /* Rows of adapters are in no model file. */
            return param < weights->params->n_model ? param : -1;
        }
    }
    return -1;
}

/* Finds out what a tensor of a file is: a parameter, something to skip, or unknown. */
static bool place_tensor(struct weights *weights, const struct safetensors *file,
                         const struct tensor_view *view, struct str *canonical,
                         struct error *err)
{
    const struct weights_place place = {.file = file, .view = view};
    const char *prefix = NULL;
    const int param = find_param(weights, view->name, &prefix, canonical);
    if (param < 0) {
        if (str_ends_with(view->name, "lm_head.weight") ||
            is_shared_leftover(weights, str_text(canonical))) {
            weights_names_add(&weights->skipped, view->name);
        } else if (is_tower(view->name)) {
            weights_names_add(&weights->skipped, view->name);
            keep_other(weights, place);
        } else {
            weights_names_add(&weights->unknown, view->name);
            keep_other(weights, place);
        }
        return true;
    }
    if (!weights_check_tensor(weights, param, view->name, view->rank, view->dim,
                              weights->places[param].view != NULL, err)) {
        return false;
    }
    if (!dtype_is_float(view->dtype)) {
        return error_set(err, ERROR_DATA,
                         "%s: tensor %s is of type %s, expected a floating-point type",
                         weights->path, view->name, dtype_name(view->dtype));
    }
    weights->places[param] = place;
    weights->prefix = prefix;
    return true;
}

/* Opens one more file and appends it to the shards. Files stay mapped until
 * weights_close: nothing is read here but their headers. */
static bool open_shard(struct weights *weights, const char *path, struct error *err)
{
    struct safetensors *file = safetensors_open(path, err);
    if (file == NULL) {
        return false;
    }
    const size_t n = weights->n_shards++;
    weights->shards =
        mem_grow_array(weights->shards, n, n + 1, sizeof(weights->shards[0]));
    weights->shard_paths =
        mem_grow_array(weights->shard_paths, n, n + 1, sizeof(weights->shard_paths[0]));
    weights->shards[n] = file;
    weights->shard_paths[n] = mem_strdup(path);
    return true;
}

/* A tensor name may stand in one shard only, whether the model needs it or not.
 * Compared with the shards opened before this one. */
static bool check_unique(const struct weights *weights, const struct safetensors *file,
                         const char *path, struct error *err)
{
    for (size_t i = 0; i < weights->n_shards && weights->shards[i] != file; i++) {
        for (size_t j = 0; j < safetensors_count(file); j++) {
            const char *name = safetensors_at(file, j)->name;
            if (safetensors_find(weights->shards[i], name) != NULL) {
                return error_set(err, ERROR_DATA,
                                 "tensor %s is there twice: in %s and %s", name,
                                 weights->shard_paths[i], path);
            }
        }
    }
    return true;
}

/* Opens the shard named in an index unless it is open, and sees that it has the
 * tensor. */
static bool open_indexed(struct weights *weights, const char *tensor, const char *shard,
                         struct error *err)
{
    if (shard == NULL || shard[0] == '\0' || shard[0] == '.' ||
        strchr(shard, '/') != NULL) {
        return error_set(err, ERROR_DATA, "the index names no file for tensor %s",
                         tensor);
    }
    char *path = file_join(weights->path, shard);
    const struct safetensors *file = NULL;
    for (size_t i = 0; i < weights->n_shards; i++) {
        if (strcmp(weights->shard_paths[i], path) == 0) {
            file = weights->shards[i];
        }
    }
    bool done = true;
    if (file == NULL) {
        done = open_shard(weights, path, err);
        file = done ? weights->shards[weights->n_shards - 1] : NULL;
        done = done && check_unique(weights, file, path, err);
    }
    if (done && safetensors_find(file, tensor) == NULL) {
        done =
            error_set(err, ERROR_DATA,
                      "%s: tensor %s is missing, the index has it here", path, tensor);
    }
    mem_free(path);
    return done;
}

/* Opens every file that the index names. The index is checked against the files,
 * whose tensors are all looked at, also those that it leaves out. */
static bool open_index(struct weights *weights, const char *path, struct error *err)
{
    json_t *index = json_read_file(path, MAX_INDEX_BYTES, err);
    if (index == NULL) {
        return false;
    }
    json_t *map = json_object_get(index, "weight_map");
    bool done = json_is_object(map);
    if (!done) {
        error_set(err, ERROR_DATA, "%s: weight_map is missing", path);
    }
    const char *tensor;
    json_t *shard;
    json_object_foreach(map, tensor, shard)
    {
        if (!open_indexed(weights, tensor, json_string_value(shard), err)) {
            done = error_wrap(err, "%s", path);
            break;
        }
    }
    json_decref(index);
    return done;
}

/* The index comes first: a folder with both is a sharded model with a stale single
 * file. */
static bool open_files(struct weights *weights, struct error *err)
{
    char *index = file_join(weights->path, "model.safetensors.index.json");
    char *single = file_join(weights->path, "model.safetensors");
    bool done;
    if (file_exists(index)) {
        done = open_index(weights, index, err);
    } else if (file_exists(single)) {
        done = open_shard(weights, single, err);
    } else {
        done = error_set(err, ERROR_NOT_FOUND,
                         "%s: no model.safetensors or model.safetensors.index.json in "
                         "this folder",
                         weights->path);
    }
    mem_free(index);
    mem_free(single);
    return done;
}

/* All tensors of all shards, placed. */
static bool open_folder(struct weights *weights, struct error *err)
{
    if (!open_files(weights, err)) {
        return false;
    }
    struct str canonical = {0};
    bool done = true;
    for (size_t i = 0; i < weights->n_shards && done; i++) {
        const struct safetensors *file = weights->shards[i];
        for (size_t j = 0; j < safetensors_count(file) && done; j++) {
            done =
                place_tensor(weights, file, safetensors_at(file, j), &canonical, err);
        }
    }
    str_deinit(&canonical);
    return done;
}

/* Every parameter has its bytes; the message names the first that has none. */
static bool check_complete(const struct weights *weights, struct error *err)
{
    int n_missing = 0;
    const struct param_info *first = NULL;
    for (int i = 0; i < weights->params->n_model; i++) {
        const struct weights_place *place = &weights->places[i];
        if (place->view == NULL && place->tensor == NULL) {
            first = first == NULL ? &weights->params->info[i] : first;
            n_missing++;
        }
    }
    if (first == NULL) {
        return true;
    }
    char shape[100];
    char more[40] = "";
    if (n_missing > 1) {
        snprintf(more, sizeof(more), ", and %d more", n_missing - 1);
    }
    return error_set(err, ERROR_DATA, "%s: tensor %s is missing (expected shape %s)%s",
                     weights->path, first->name,
                     tensor_view_format_shape(shape, first->rank, first->dim), more);
}

struct weights *weights_open_quietly(const char *path,
                                     const struct model_config *config,
                                     const struct params *params, struct error *err)
{
    struct weights *weights = mem_alloc(sizeof(*weights));
    weights->path = mem_strdup(path);
    weights->config = config;
    weights->params = params;
    weights->prefix = "model.";
    weights->places =
        mem_alloc_array((size_t)params->n_model, sizeof(weights->places[0]));
    const bool done = file_is_folder(path) ? open_folder(weights, err)
                                           : weights_open_gguf(weights, err);
    if (!done || !check_complete(weights, err)) {
        weights_close(weights);
        return NULL;
    }
    return weights;
}

/* One line for all that was skipped, one for all that is unknown. */
struct weights *weights_open(const char *path, const struct model_config *config,
                             const struct params *params, struct error *err)
{
    struct weights *weights = weights_open_quietly(path, config, params, err);
    if (weights == NULL) {
        return NULL;
    }
    if (weights->skipped.n > 0) {
        log_note("%s: %d tensor(s) skipped that text training does not use: %s%s", path,
                 weights->skipped.n, weights->skipped.first,
                 weights->skipped.n > 3 ? ", ..." : "");
    }
    if (weights->unknown.n > 0) {
        log_warning("%s: %d tensor(s) ignored that the model does not have: %s%s", path,
                    weights->unknown.n, weights->unknown.first,
                    weights->unknown.n > 3 ? ", ..." : "");
    }
    return weights;
}

/* Also closes what was opened only in part. */
void weights_close(struct weights *weights)
{
    if (weights == NULL) {
        return;
    }
    for (size_t i = 0; i < weights->n_shards; i++) {
        safetensors_close(weights->shards[i]);
        mem_free(weights->shard_paths[i]);
    }
    mem_free(weights->shards);
    mem_free(weights->shard_paths);
    gguf_close(weights->gguf);
    mem_free(weights->places);
    mem_free(weights->others);
    mem_free(weights->path);
    mem_free(weights);
}

/* Elements first .. first + n - 1 of a quantised matrix: whole rows, so whole
 * blocks. */
static void read_quantised(const struct weights *weights,
                           const struct gguf_tensor *tensor, int64_t first, int64_t n,
                           float *target)
{
    const size_t per_block = quant_block_elements(tensor->type);
    const size_t block_bytes = quant_block_bytes(tensor->type);
    const size_t begin = (size_t)first / per_block * block_bytes;
    const size_t length = (size_t)n / per_block * block_bytes;
    quant_to_f32(tensor->type, tensor->bytes + begin, target, (size_t)n);
    if (length >= DROP_BYTES) {
        gguf_drop(weights->gguf, tensor, begin, length);
    }
}

/* Pages of large ranges are given back at once: a model need not fit into memory
 * twice. */
bool weights_read(const struct weights *weights, int param, int64_t first_row,
                  int64_t n_rows, float *target, struct error *err)
{
    ASSERT(0 <= param && param < weights->params->n_model);
    const struct param_info *info = &weights->params->info[param];
    ASSERT(0 <= first_row && 0 <= n_rows && first_row <= info->dim[0] - n_rows);
    (void)err; /* files are mapped: nothing is left that could fail */

    const struct weights_place *place = &weights->places[param];
    const int64_t first = first_row * info->dim[1];
    const int64_t n = n_rows * info->dim[1];
    if (place->tensor != NULL) {
        read_quantised(weights, place->tensor, first, n, target);
        if (info->is_norm && weights->config->norm_adds_one) {
            for (int64_t i = 0; i < n; i++) {
                target[i] -= 1.0f; /* stored as 1 + w */
            }
        }
        return true;
    }
    tensor_view_to_f32(place->view, first, n, target);
    const size_t width = dtype_bytes(place->view->dtype);
    if ((size_t)n * width >= DROP_BYTES) {
        safetensors_drop(place->file, place->view, (size_t)first * width,
                         (size_t)n * width);
    }
    return true;
}

/* The file's bytes are little-endian; a machine of another order has to convert. */
static bool is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

/* Safetensors files align their first tensor only, so each address is looked at. */
const void *weights_view(const struct weights *weights, int param, enum dtype *dtype)
{
    ASSERT(0 <= param && param < weights->params->n_model);
    const struct param_info *info = &weights->params->info[param];
    const struct weights_place *place = &weights->places[param];
    const unsigned char *bytes;
    if (place->view != NULL) {
        bytes = place->view->bytes;
        *dtype = place->view->dtype;
    } else {
        const enum quant_type type = place->tensor->type;
        if ((type != QUANT_F32 && type != QUANT_BF16) ||
            (info->is_norm && weights->config->norm_adds_one)) {
            return NULL;
        }
        bytes = place->tensor->bytes;
        *dtype = type == QUANT_F32 ? DTYPE_F32 : DTYPE_BF16;
    }
    const bool fits = (*dtype == DTYPE_F32 || *dtype == DTYPE_BF16) &&
                      (uintptr_t)bytes % dtype_bytes(*dtype) == 0 && is_little_endian();
    return fits ? bytes : NULL;
}

const char *weights_type_name(const struct weights *weights, int param)
{
    const struct weights_place *place = &weights->places[param];
    return place->tensor != NULL ? quant_name(place->tensor->type)
                                 : dtype_name(place->view->dtype);
}

/* All tensors begin alike; that of the last one stands for all. */
const char *weights_prefix(const struct weights *weights)
{
    return weights->prefix;
}

bool weights_is_gguf(const struct weights *weights)
{
    return weights->gguf != NULL;
}
