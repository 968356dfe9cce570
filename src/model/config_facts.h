/*
 * config_facts - what a model file says, before it is resolved to facts per layer.
 *
 * Every reader (JSON, GGUF, the table of sizes) fills a struct config_facts; the rules
 * that turn it into a struct model_config stand once, in config_resolve. Private to the
 * model's config files.
 */
#ifndef MODEL_CONFIG_FACTS_H
#define MODEL_CONFIG_FACTS_H

#include "base/base.h"
#include "model/config.h"

/* Rotary embedding of one kind of layer. */
struct config_rope {
    double theta;   /* base of the frequencies; 0 = not given */
    double factor;  /* divides the frequencies */
    double partial; /* part of the pairs that rotates, 0 .. 1 */
};

/* Of the base, what a layer needs is derived from the fields behind it. */
struct config_facts {
    struct model_config
        base; /* all but L's dependents: layer, embed_scale, the has_ flags */
    /* of all layers that nothing else is said of */
    int64_t head_dim, kv_heads, mlp_width;
    int64_t full_head_dim;             /* of full layers */
    int64_t full_kv_heads;             /* of full layers with k_eq_v, 0 = kv_heads */
    int n_shared;                      /* the last n_shared layers share K and V */
    bool is_shared_mlp_double;         /* sharing layers have a wider MLP */
    bool k_eq_v;                       /* in full layers */
    double query_scalar;               /* Gemma 3: attention scale = this^-0.5 */
    bool is_sliding[MODEL_MAX_LAYERS]; /* [L] */
    int64_t layer_head_dim[MODEL_MAX_LAYERS]; /* [L] overrides, 0 = none */
    int64_t layer_kv_heads[MODEL_MAX_LAYERS]; /* [L] the same */
    struct config_rope rope[2];               /* [0] full, [1] sliding layers */
};

/* Values that every reader starts from: zero but for ids, eps, ranges and ropes. */
void config_facts_init(struct config_facts *facts, enum model_family family);

/* Marks every layer sliding but each period-th (counted from 1). */
void config_facts_set_period(struct config_facts *facts, int period);

/* "bfloat16" and so on, as config.json spells them; false for other names. */
bool config_facts_dtype(const char *name, enum dtype *dtype);
const char *config_facts_dtype_name(enum dtype dtype); /* BF16, F16 or F32 */

/* Derives the layers and checks the result; `where` is for messages. */
MUST_USE bool config_resolve(const struct config_facts *facts, const char *where,
                             struct model_config *config, struct error *err);

#endif
