/*
 * params - the table of a model's tensors, in a fixed order.
 *
 * From a model_config alone: names, shapes and roles. The order is the embedding
 * tables, the model-wide per-layer-embedding tensors, layer by layer, the final norm.
 * Indices into this table identify parameters everywhere (weights, optimizer,
 * checkpoints, freezing).
 *
 *     struct params *params = params_create(&config);
 *     int q = params_index(params, PARAM_Q, 3);
 *     params->info[q].name    "model.layers.3.self_attn.q_proj.weight", [H*K, D]
 *
 * Matrices are [out, in], row-major, as PyTorch stores them.
 *
 * LoRA adapters are further rows behind the model's own, so that everything that goes
 * by index (gradients, optimizer state, reading and writing) takes them as they are:
 * for a weight W [out, in] two matrices A [r, in] and B [out, r], called
 * "model.layers.3.self_attn.q_proj.lora_A.weight" and "...lora_B.weight"; the model
 * then multiplies by W + lora_scale * B A. Rows of model files are the first n_model.
 */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "base/base.h"
#include "base/dtype.h"

struct arena;
struct model_config;

enum param_role {
    PARAM_EMBED,                     /* [V, D], also the head */
    PARAM_PLE_TABLE,                 /* [per_layer_V, L*P] per-layer embeddings */
    PARAM_PLE_MODEL,                 /* [L*P, D] */
    PARAM_PLE_MODEL_NORM,            /* [P] */
    PARAM_INPUT_NORM,                /* [D] before attention */
    PARAM_Q,                         /* [H*K, D] */
    PARAM_K,                         /* [G*K, D] layers with their own K and V */
    PARAM_V,                         /* [G*K, D] the same, unless k_eq_v */
    PARAM_O,                         /* [D, H*K] */
    PARAM_Q_NORM,                    /* [K] */
    PARAM_K_NORM,                    /* [K] layers with their own K and V */
    PARAM_POST_ATTENTION_NORM,       /* [D] */
    PARAM_PRE_MLP_NORM,              /* [D] */
    PARAM_GATE,                      /* [F, D] */
    PARAM_UP,                        /* [F, D] */
    PARAM_DOWN,                      /* [D, F] */
    PARAM_POST_MLP_NORM,             /* [D] */
    PARAM_PLE_GATE,                  /* [P, D] */
    PARAM_PLE_OUT,                   /* [D, P] */
    PARAM_PLE_NORM,                  /* [D] */
    PARAM_LAYER_SCALAR,              /* [1] */
    PARAM_FINAL_NORM,                /* [D] */
    PARAM_ROLE_COUNT,                /* of a model's own tensors */
    PARAM_LORA_A = PARAM_ROLE_COUNT, /* [r, in] of an adapter */
    PARAM_LORA_B                     /* [out, r] */
};

struct param_info {
    const char *name; /* text-only Hugging Face name */
    enum param_role role;
    int layer;      /* -1 = of the whole model */
    int base;       /* of an adapter: index of the weight that it changes; else -1 */
    int rank;       /* 1 or 2 */
    int64_t dim[2]; /* dim[1] is 1 for rank 1 */
    int64_t n_elements;
    bool is_norm;                 /* weight of an RMS norm */
    bool is_trainable_by_default; /* all but layer_scalar */
};

/* Owned by its arena: one destroy frees all. */
struct params {
    const struct param_info *info; /* [n] */
    int n;                         /* tensors, those of adapters too */
    int n_model;                   /* the first ones: the model's own */
    int64_t n_elements;            /* of the model's own */
    int64_t n_adapter_elements;    /* of the others */
    double lora_scale;             /* alpha / rank; 0 without adapters */
    const uint32_t *adapted; /* [L] bit i: weight with role i has one; NULL: none */
    struct arena *arena;     /* owns names, rows and this struct */
};

struct params *params_create(const struct model_config *config);
void params_destroy(struct params *params); /* takes NULL */

/*
 * Adds adapters of rank `rank` to all weights i with has_adapter[i] (matrices of
 * layers; [n_model]), in the order of the table, A before B. Once per table; what has
 * been opened with the table before stays valid.
 */
void params_add_adapters(struct params *params, const bool *has_adapter, int64_t rank,
                         double scale);

/* Layers of one role are stacked in graphs, so in memory they have one dtype: sets those
 * of a role in stored[n_model] to F32 where they differ. */
void params_unify_dtypes(const struct params *params, enum dtype *stored);

/* Index of the adapter's matrix `side` (PARAM_LORA_A or _B) of the weight `base`, or
 * -1. */
int params_adapter(const struct params *params, enum param_role side, int base);

/* Index of a model's own role in a layer (-1 for model-wide roles), or -1 when the
 * model has none. */
int params_index(const struct params *params, enum param_role role, int layer);

/* Index of the tensor with this canonical name, or -1. */
int params_find(const struct params *params, const char *name);

/* The part of a layer tensor's name after "model.layers.N.", or of a model-wide one's
 * after "model.": "self_attn.q_proj.weight". */
const char *params_role_name(enum param_role role);
bool params_role_is_layer(enum param_role role);

#endif
