/*
 * config - what a Gemma model is, resolved to facts per layer.
 *
 * Read from a folder in Hugging Face layout (every form of config.json that is in use),
 * from a GGUF file, or by name from the table of published sizes. After reading,
 * nothing is left to derive: the graph builder, the parameter table and the planner
 * look facts up here and nowhere else.
 *
 *     struct model_config config;
 *     if (!model_config_read("models/gemma-3-270m.gguf", &config, err)) ...
 *
 * A struct model_config is a plain value: copy it freely.
 *
 * Letters: D model width, L layers, V vocabulary, H query heads, G key-value heads, K
 * head width, F width of the feed-forward block (MLP), P width of one per-layer
 * embedding.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <jansson.h>

#include "base/base.h"
#include "base/dtype.h"

struct error;
struct gguf;

enum { MODEL_MAX_LAYERS = 256, MODEL_MAX_EOS = 8 };

enum model_family { MODEL_GEMMA3, MODEL_GEMMA4 };

/* One decoder layer. */
struct layer_config {
    bool is_sliding; /* sees config.window keys, its own included; else all before */
    bool k_eq_v;     /* no v_proj: v is the raw output of k_proj */
    int kv_source;   /* the layer whose K and V are used; its own index: has its own */
    int64_t G;       /* key-value heads; H is a multiple */
    int64_t K;       /* head width, even */
    int64_t F;       /* MLP width */
    double rope_theta;    /* frequency of pair i: theta^(-2i/K) / rope_factor */
    double rope_factor;   /* 1 = unscaled */
    int64_t rotary_pairs; /* pairs i < rotary_pairs of K/2 rotate, the rest stay */
};

/* About 14 KB: functions take it by pointer. */
struct model_config {
    enum model_family family;
    int64_t D, V, H;          /* width, vocabulary, query heads */
    int L;                    /* layers */
    int64_t P;                /* per-layer embedding width, 0 = none */
    int64_t per_layer_V;      /* rows of the per-layer embedding table */
    int64_t window;           /* of sliding layers, in tokens */
    int64_t max_positions;    /* longest row of tokens the model is made for */
    double rms_eps;           /* added to the mean square in norms */
    double attention_scale;   /* on q.k */
    double final_softcap;     /* 0 = none */
    double embed_scale;       /* sqrt(D); bf16 models round it to bf16 */
    double initializer_range; /* deviation of random initial weights */
    bool norm_adds_one;    /* norms multiply by 1 + weight (Gemma 3), else by weight */
    bool has_v_norm;       /* weightless norm on v (Gemma 4) */
    bool has_layer_scalar; /* layer output times a stored number (Gemma 4) */
    int pad_id;            /* its embedding row gets no lookup gradient */
    int bos_id;            /* begins a text */
    int eos_id[MODEL_MAX_EOS]; /* the first is the one appended to responses */
    int n_eos;                 /* entries of eos_id, at least 1 */
    enum dtype dtype;          /* of the tensors in the file, as its config says */
    struct layer_config layer[MODEL_MAX_LAYERS]; /* [L] */
};

/* A folder or a .gguf file. */
MUST_USE bool model_config_read(const char *path, struct model_config *config,
                                struct error *err);

/* folder/config.json. */
MUST_USE bool model_config_read_folder(const char *folder, struct model_config *config,
                                       struct error *err);

/* The parsed config.json `root`; `where` is its path, for messages. */
MUST_USE bool model_config_from_json(json_t *root, const char *where,
                                     struct model_config *config, struct error *err);

/* An open GGUF file of a Gemma 3 text model; `where` is its path. */
MUST_USE bool model_config_read_gguf(const struct gguf *file, const char *where,
                                     struct model_config *config, struct error *err);

/* Published sizes: gemma3-270m, gemma3-1b, gemma4-e2b, gemma4-e4b, gemma4-12b,
 * gemma4-31b. False when there is no such name; model_config_name(i) lists them, NULL
 * at the end. */
bool model_config_named(const char *name, struct model_config *config);
const char *model_config_name(int i);

/* The model as a text-only config.json with tensors of type `dtype`; json_decref it. */
json_t *model_config_to_json(const struct model_config *config, enum dtype dtype);

/* Consistency of the whole value; `where` is for messages. Every reader ends with
 * it. */
MUST_USE bool model_config_check(const struct model_config *config, const char *where,
                                 struct error *err);

/* Whether layer i computes its own K and V. */
static inline bool model_config_owns_kv(const struct model_config *config, int i)
{
    return config->layer[i].kv_source == i;
}

const char *model_family_name(enum model_family family); /* "Gemma 3" */

#endif
