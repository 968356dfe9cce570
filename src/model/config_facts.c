/*
 * config_facts - see config_facts.h. The rules are those of the reference
 * implementation: which layer's K and V a layer uses, how wide its MLP is, how many
 * pairs rotate.
 */
#include "model/config_facts.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

/* rms_eps, initializer_range, ids and query_scalar are the reference's defaults; files
 * may leave them out. */
void config_facts_init(struct config_facts *facts, enum model_family family)
{
    memset(facts, 0, sizeof(*facts));
    struct model_config *base = &facts->base;
    base->family = family;
    base->rms_eps = 1e-6;
    base->initializer_range = 0.02;
    base->bos_id = 2;
    base->eos_id[0] = 1;
    base->n_eos = 1;
    base->dtype = DTYPE_F32;
    facts->query_scalar = 256.0;
    for (int i = 0; i < 2; i++) {
        facts->rope[i] = (struct config_rope){.factor = 1.0, .partial = 1.0};
    }
}

/* For layer counts that were checked: is_sliding has MODEL_MAX_LAYERS entries. */
void config_facts_set_period(struct config_facts *facts, int period)
{
    for (int i = 0; i < facts->base.L; i++) {
        facts->is_sliding[i] = (i + 1) % period != 0;
    }
}

static const struct {
    const char *name;
    enum dtype dtype;
} dtypes[] = {
    {"bfloat16", DTYPE_BF16},
    {"float16", DTYPE_F16},
    {"float32", DTYPE_F32},
};

/* Other names (float8 ...) are refused by the caller, with what is allowed. */
bool config_facts_dtype(const char *name, enum dtype *dtype)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = dtypes[i].dtype;
            return true;
        }
    }
    return false;
}

/* Of the three that a model can be written in. */
const char *config_facts_dtype_name(enum dtype dtype)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++) {
        if (dtypes[i].dtype == dtype) {
            return dtypes[i].name;
        }
    }
    UNREACHABLE();
}

/* The last layer before `first_shared` of the same kind as layer i, or -1. */
static int find_kv_source(const struct config_facts *facts, int first_shared, int i)
{
    for (int source = first_shared - 1; source >= 0; source--) {
        if (facts->is_sliding[source] == facts->is_sliding[i]) {
            return source;
        }
    }
    return -1;
}

/*
 * pairs = floor(partial K / 2), F = 2 mlp_width in shared layers of some models
 * Overrides per layer come last: they name the layer, all else a kind of layers.
 */
static struct layer_config resolve_layer(const struct config_facts *facts, int i)
{
    const int first_shared = facts->base.L - facts->n_shared;
    const bool is_shared = i >= first_shared;
    const bool is_sliding = facts->is_sliding[i];
    const struct config_rope *rope = &facts->rope[is_sliding];

    struct layer_config layer;
    memset(&layer, 0, sizeof(layer));
    layer.is_sliding = is_sliding;
    layer.k_eq_v = facts->k_eq_v && !is_sliding;
    layer.kv_source = is_shared ? find_kv_source(facts, first_shared, i) : i;
    layer.K = is_sliding ? facts->head_dim : facts->full_head_dim;
    layer.G = layer.k_eq_v && facts->full_kv_heads > 0 ? facts->full_kv_heads
                                                       : facts->kv_heads;
    if (facts->layer_head_dim[i] > 0) {
        layer.K = facts->layer_head_dim[i];
    }
    if (facts->layer_kv_heads[i] > 0) {
        layer.G = facts->layer_kv_heads[i];
    }
    layer.F = facts->mlp_width * (is_shared && facts->is_shared_mlp_double ? 2 : 1);
    layer.rope_theta = rope->theta;
    layer.rope_factor = rope->factor;
    layer.rotary_pairs = (int64_t)floor(rope->partial * (double)layer.K / 2.0);
    return layer;
}

/*
 * embed_scale = sqrt(D)    attention_scale = query_scalar^(-1/2), or 1 for Gemma 4
 * Gemma 4 has its scale in the norms of q and k.
 */
bool config_resolve(const struct config_facts *facts, const char *where,
                    struct model_config *config, struct error *err)
{
    *config = facts->base;
    if (config->L < 1 || config->L > MODEL_MAX_LAYERS) {
        return error_set(err, ERROR_DATA, "%s: %d layers, expected 1 to %d", where,
                         config->L, MODEL_MAX_LAYERS);
    }
    if (facts->n_shared < 0 || facts->n_shared >= config->L) {
        return error_set(err, ERROR_DATA,
                         "%s: num_kv_shared_layers is %d, expected less than the %d "
                         "layers of the model",
                         where, facts->n_shared, config->L);
    }
    const bool is_gemma4 = config->family == MODEL_GEMMA4;
    config->embed_scale = sqrt((double)config->D);
    config->attention_scale = is_gemma4 ? 1.0 : 1.0 / sqrt(facts->query_scalar);
    config->norm_adds_one = !is_gemma4;
    config->has_v_norm = is_gemma4;
    config->has_layer_scalar = is_gemma4;
    for (int i = 0; i < config->L; i++) {
        config->layer[i] = resolve_layer(facts, i);
    }
    return model_config_check(config, where, err);
}
