/*
 * config - see config.h. Here: the table of published sizes, the consistency check, and
 * the choice of a reader. The readers are config_json.c and config_gguf.c.
 */
#include "model/config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/gguf.h"
#include "model/config_facts.h"

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_WIDTH = 1 << 20, MAX_VOCABULARY = 1 << 24 };

/* Published sizes. full_* are those of full-attention layers. Only what differs between
 * the sizes; facts_from_size adds what a family has in common. */
static const struct size {
    const char *name;
    enum model_family family;
    int D, L, H, G, full_G, K, full_K, F; /* full_G 0: as G */
    /* each period-th layer is full; the last n_shared share */
    int window, period, n_shared;
    bool is_shared_mlp_double, k_eq_v;
    int P, max_positions; /* P 0: no per-layer embeddings */
} sizes[] = {
    // clang-format off
    /*              family        D     L   H   G  fG K    fK   F      window per shared double k=v  P    positions */
    {"gemma3-270m", MODEL_GEMMA3, 640,  18, 4,  1,  0, 256, 256, 2048,  512,  6, 0,  false, false, 0,   32768},
    {"gemma3-1b",   MODEL_GEMMA3, 1152, 26, 4,  1,  0, 256, 256, 6912,  512,  6, 0,  false, false, 0,   32768},
    {"gemma4-e2b",  MODEL_GEMMA4, 1536, 35, 8,  1,  0, 256, 512, 6144,  512,  5, 20, true,  false, 256, 131072},
    {"gemma4-e4b",  MODEL_GEMMA4, 2560, 42, 8,  2,  0, 256, 512, 10240, 512,  6, 18, false, false, 256, 131072},
    {"gemma4-12b",  MODEL_GEMMA4, 3840, 48, 16, 8,  1, 256, 512, 15360, 1024, 6, 0,  false, true,  0,   262144},
    {"gemma4-31b",  MODEL_GEMMA4, 5376, 60, 32, 16, 4, 256, 512, 21504, 1024, 6, 0,  false, true,  0,   262144},
    // clang-format on
};

/* A row of the table as the facts that a config.json would give. */
static void facts_from_size(const struct size *size, struct config_facts *facts)
{
    const bool is_gemma4 = size->family == MODEL_GEMMA4;
    config_facts_init(facts, size->family);
    facts->base.D = size->D;
    facts->base.L = size->L;
    facts->base.H = size->H;
    facts->base.V = 262144;
    facts->base.P = size->P;
    facts->base.per_layer_V = size->P > 0 ? 262144 : 0;
    facts->base.window = size->window;
    facts->base.max_positions = size->max_positions;
    facts->base.final_softcap = is_gemma4 ? 30.0 : 0.0;
    facts->base.dtype = DTYPE_BF16;
    facts->head_dim = size->K;
    facts->full_head_dim = size->full_K;
    facts->kv_heads = size->G;
    facts->full_kv_heads = size->full_G;
    facts->mlp_width = size->F;
    facts->n_shared = size->n_shared;
    facts->is_shared_mlp_double = size->is_shared_mlp_double;
    facts->k_eq_v = size->k_eq_v;
    facts->rope[0].theta = 1e6;
    facts->rope[0].partial = is_gemma4 ? 0.25 : 1.0;
    facts->rope[1].theta = 1e4;
    config_facts_set_period(facts, size->period);
}

/* The table is right by test, so resolving it cannot fail. */
bool model_config_named(const char *name, struct model_config *config)
{
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        if (strcmp(sizes[i].name, name) == 0) {
            struct config_facts facts;
            struct error err;
            facts_from_size(&sizes[i], &facts);
            const bool is_resolved = config_resolve(&facts, name, config, &err);
            ASSERT(is_resolved);
            return true;
        }
    }
    return false;
}

const char *model_config_name(int i)
{
    return 0 <= i && (size_t)i < ARRAY_LENGTH(sizes) ? sizes[i].name : NULL;
}

/* For messages. */
const char *model_family_name(enum model_family family)
{
    switch (family) {
    case MODEL_GEMMA3:
        return "Gemma 3";
    case MODEL_GEMMA4:
        return "Gemma 4";
    }
    UNREACHABLE();
}

/* The message names the key of config.json whose value it is. */
static bool check_range(int64_t value, int64_t low, int64_t high, const char *what,
                        const char *where, struct error *err)
{
    if (value < low || value > high) {
        return error_set(err, ERROR_DATA, "%s: %s is %lld, expected %lld to %lld",
                         where, what, (long long)value, (long long)low,
                         (long long)high);
    }
    return true;
}

/* Written so that NaN fails too. */
static bool check_positive(double value, const char *what, const char *where,
                           struct error *err)
{
    if (!(value > 0.0 && value <= 1e18)) {
        return error_set(err, ERROR_DATA, "%s: %s is %g, expected a positive number",
                         where, what, value);
    }
    return true;
}

/* K and V can be shared only between layers of the same kind and the same shape. */
static bool check_kv_source(const struct model_config *config, int i, const char *place,
                            struct error *err)
{
    const struct layer_config *layer = &config->layer[i];
    if (layer->kv_source < 0) {
        return error_set(err, ERROR_DATA,
                         "%s shares K and V, but no %s layer before the last "
                         "num_kv_shared_layers has any",
                         place, layer->is_sliding ? "sliding" : "full");
    }
    const struct layer_config *source = &config->layer[layer->kv_source];
    if (source->K != layer->K || source->G != layer->G) {
        return error_set(err, ERROR_DATA,
                         "%s has %lld key-value heads of width %lld; layer %d, whose K "
                         "and V it shares, has %lld of width %lld",
                         place, (long long)layer->G, (long long)layer->K,
                         layer->kv_source, (long long)source->G, (long long)source->K);
    }
    return true;
}

/* One layer. Widths are bounded so that products of two of them fit 64 bits. */
static bool check_layer(const struct model_config *config, int i, const char *where,
                        struct error *err)
{
    const struct layer_config *layer = &config->layer[i];
    char place[600];
    snprintf(place, sizeof(place), "%s: layer %d", where, i);
    if (!check_range(layer->K, 2, MAX_WIDTH, "head_dim", place, err) ||
        !check_range(layer->G, 1, config->H, "num_key_value_heads", place, err) ||
        !check_range(layer->F, 1, MAX_WIDTH, "intermediate_size", place, err) ||
        !check_range(config->H * layer->K, 2, MAX_WIDTH, "heads * head_dim", place,
                     err) ||
        !check_positive(layer->rope_theta, "rope_theta", place, err) ||
        !check_positive(layer->rope_factor, "rope factor", place, err)) {
        return false;
    }
    if (layer->K % 2 != 0) {
        return error_set(err, ERROR_DATA, "%s: head_dim %lld is odd", place,
                         (long long)layer->K);
    }
    if (config->H % layer->G != 0) {
        return error_set(err, ERROR_DATA,
                         "%s: num_attention_heads %lld is no multiple of "
                         "num_key_value_heads %lld",
                         place, (long long)config->H, (long long)layer->G);
    }
    ASSERT(layer->rotary_pairs >= 0 && layer->rotary_pairs <= layer->K / 2);
    if (layer->rotary_pairs == 0) {
        return error_set(err, ERROR_DATA,
                         "%s: partial_rotary_factor turns none of the %lld pairs",
                         place, (long long)layer->K / 2);
    }
    return check_kv_source(config, i, place, err);
}

/* Token ids must be rows of the embedding table: others would have no embedding. */
static bool check_ids(const struct model_config *config, const char *where,
                      struct error *err)
{
    const int64_t last = config->V - 1;
    if (!check_range(config->pad_id, 0, last, "pad_token_id", where, err) ||
        !check_range(config->bos_id, 0, last, "bos_token_id", where, err) ||
        !check_range(config->n_eos, 1, MODEL_MAX_EOS, "number of eos_token_id", where,
                     err)) {
        return false;
    }
    for (int i = 0; i < config->n_eos; i++) {
        if (!check_range(config->eos_id[i], 0, last, "eos_token_id", where, err)) {
            return false;
        }
    }
    return true;
}

/* Counts come before the layers, which are looked up by them; H and D before the
 * layers' products. After this, all sizes of a model fit 64 bits with room to spare. */
bool model_config_check(const struct model_config *config, const char *where,
                        struct error *err)
{
    if (!check_range(config->D, 1, MAX_WIDTH, "hidden_size", where, err) ||
        !check_range(config->V, 1, MAX_VOCABULARY, "vocab_size", where, err) ||
        !check_range(config->H, 1, 1024, "num_attention_heads", where, err) ||
        !check_range(config->L, 1, MODEL_MAX_LAYERS, "num_hidden_layers", where, err) ||
        !check_range(config->P, 0, MAX_WIDTH, "hidden_size_per_layer_input", where,
                     err) ||
        !check_range(config->max_positions, 1, INT32_MAX, "max_position_embeddings",
                     where, err) ||
        !check_positive(config->rms_eps, "rms_norm_eps", where, err) ||
        !check_positive(config->attention_scale, "attention scale", where, err) ||
        !check_ids(config, where, err)) {
        return false;
    }
    const bool has_softcap = config->final_softcap != 0.0;
    if (has_softcap &&
        !check_positive(config->final_softcap, "final_logit_softcapping", where, err)) {
        return false;
    }
    if (config->P > 0 && !check_range(config->per_layer_V, 1, MAX_VOCABULARY,
                                      "vocab_size_per_layer_input", where, err)) {
        return false;
    }
    for (int i = 0; i < config->L; i++) {
        if (config->layer[i].is_sliding &&
            !check_range(config->window, 1, INT32_MAX, "sliding_window", where, err)) {
            return false;
        }
        if (!check_layer(config, i, where, err)) {
            return false;
        }
    }
    return true;
}

/* json_decref takes NULL, so a failed read needs no path of its own. */
bool model_config_read_folder(const char *folder, struct model_config *config,
                              struct error *err)
{
    char *path = file_join(folder, "config.json");
    json_t *root = json_read_file(path, MAX_CONFIG_BYTES, err);
    const bool done = root != NULL && model_config_from_json(root, path, config, err);
    json_decref(root);
    mem_free(path);
    return done;
}

/* By what is there, not by its name: a folder, or else a GGUF file. */
bool model_config_read(const char *path, struct model_config *config, struct error *err)
{
    if (file_is_folder(path)) {
        return model_config_read_folder(path, config, err);
    }
    if (!file_exists(path)) {
        return error_set(
            err, ERROR_NOT_FOUND,
            "%s: no such model; expected a folder in Hugging Face layout or "
            "a .gguf file",
            path);
    }
    struct gguf *file = gguf_open(path, err);
    const bool done = file != NULL && model_config_read_gguf(file, path, config, err);
    gguf_close(file);
    return done;
}
