/*
 * config_write - a model_config as the config.json of a text-only model.
 *
 * For models that have none: those from a GGUF file, and those made by lathe. The form
 * is that of the Hub (global_head_dim, layer_types, rope_parameters).
 */
#include <math.h>

#include "model/config.h"
#include "model/config_facts.h"

/* 24.000000000000004 means 24: what a square and a root leave behind. */
static json_t *rounded_number(double x)
{
    const double nearest = round(x);
    return fabs(x - nearest) <= 1e-9 * x ? json_integer((json_int_t)nearest)
                                         : json_real(x);
}

/* The rotary description of one kind of layer, taken from any layer of that kind. */
static json_t *rope_to_json(const struct model_config *config, bool is_sliding)
{
    const struct layer_config *layer = &config->layer[0];
    for (int i = 0; i < config->L; i++) {
        if (config->layer[i].is_sliding == is_sliding) {
            layer = &config->layer[i];
        }
    }
    json_t *rope = json_object();
    json_object_set_new(rope, "rope_theta", json_real(layer->rope_theta));
    /* Of the three types only `proportional` can leave pairs unturned. */
    if (layer->rotary_pairs != layer->K / 2) {
        double partial = 2.0 * (double)layer->rotary_pairs / (double)layer->K;
        /* A reader rounds down: 2 * 3 / 14 of 14 must not become 2 pairs. */
        if (floor(partial * (double)layer->K / 2.0) < (double)layer->rotary_pairs) {
            partial = nextafter(partial, 1.0);
        }
        json_object_set_new(rope, "rope_type", json_string("proportional"));
        json_object_set_new(rope, "partial_rotary_factor", json_real(partial));
    } else if (layer->rope_factor != 1.0) {
        json_object_set_new(rope, "rope_type", json_string("linear"));
    } else {
        json_object_set_new(rope, "rope_type", json_string("default"));
    }
    if (layer->rope_factor != 1.0) {
        json_object_set_new(rope, "factor", json_real(layer->rope_factor));
    }
    return rope;
}

/* Kinds of layers and their rotary descriptions. */
static void add_layer_fields(json_t *root, const struct model_config *config)
{
    json_t *types = json_array();
    for (int i = 0; i < config->L; i++) {
        const char *type =
            config->layer[i].is_sliding ? "sliding_attention" : "full_attention";
        json_array_append_new(types, json_string(type));
    }
    json_object_set_new(root, "layer_types", types);
    json_t *ropes = json_object();
    json_object_set_new(ropes, "full_attention", rope_to_json(config, false));
    json_object_set_new(ropes, "sliding_attention", rope_to_json(config, true));
    json_object_set_new(root, "rope_parameters", ropes);
}

/* Layer `first` is the first of its kind: sliding, or full when the model has none. */
static void add_gemma4_fields(json_t *root, const struct model_config *config,
                              const struct layer_config *first)
{
    int n_shared = 0;
    bool is_double = false;
    const struct layer_config *full = NULL;
    for (int i = 0; i < config->L; i++) {
        n_shared += !model_config_owns_kv(config, i);
        is_double = is_double || config->layer[i].F != first->F;
        full = config->layer[i].is_sliding ? full : &config->layer[i];
    }
    ASSERT(full != NULL); /* the last layer is one */
    json_t *no_heads = full->k_eq_v ? json_integer(full->G) : json_null();
    json_object_set_new(root, "hidden_size_per_layer_input", json_integer(config->P));
    json_object_set_new(root, "vocab_size_per_layer_input",
                        json_integer(config->P > 0 ? config->per_layer_V : config->V));
    json_object_set_new(root, "num_kv_shared_layers", json_integer(n_shared));
    json_object_set_new(root, "use_double_wide_mlp", json_boolean(is_double));
    json_object_set_new(root, "attention_k_eq_v", json_boolean(full->k_eq_v));
    json_object_set_new(root, "global_head_dim", json_integer(full->K));
    json_object_set_new(root, "num_global_key_value_heads", no_heads);
    json_object_set_new(root, "enable_moe_block", json_false());
}

/* Token ids; a single end token is written as a number, several as a list. */
static void add_ids(json_t *root, const struct model_config *config)
{
    json_t *eos = json_integer(config->eos_id[0]);
    if (config->n_eos > 1) {
        json_decref(eos);
        eos = json_array();
        for (int i = 0; i < config->n_eos; i++) {
            json_array_append_new(eos, json_integer(config->eos_id[i]));
        }
    }
    json_object_set_new(root, "pad_token_id", json_integer(config->pad_id));
    json_object_set_new(root, "bos_token_id", json_integer(config->bos_id));
    json_object_set_new(root, "eos_token_id", eos);
}

/* json_pack gives NULL where memory ends or the format is wrong; both are for an
 * assertion here. */
json_t *model_config_to_json(const struct model_config *config, enum dtype dtype)
{
    const bool is_gemma4 = config->family == MODEL_GEMMA4;
    const struct layer_config *first = &config->layer[0];
    json_t *softcap =
        config->final_softcap > 0.0 ? json_real(config->final_softcap) : json_null();
    json_t *root = json_pack(
        "{s:[s], s:s, s:s, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s,"
        " s:b, s:f, s:b, s:o}",
        "architectures", is_gemma4 ? "Gemma4ForCausalLM" : "Gemma3ForCausalLM",
        "model_type", is_gemma4 ? "gemma4_text" : "gemma3_text", "dtype",
        config_facts_dtype_name(dtype), "hidden_size", (json_int_t)config->D,
        "num_hidden_layers", config->L, "num_attention_heads", (json_int_t)config->H,
        "num_key_value_heads", (json_int_t)first->G, "head_dim", (json_int_t)first->K,
        "intermediate_size", (json_int_t)first->F, "vocab_size", (json_int_t)config->V,
        "sliding_window", (json_int_t)config->window, "max_position_embeddings",
        (json_int_t)config->max_positions, "rms_norm_eps", config->rms_eps,
        "initializer_range", config->initializer_range, "hidden_activation",
        "gelu_pytorch_tanh", "attention_bias", 0, "attention_dropout", 0.0,
        "tie_word_embeddings", 1, "final_logit_softcapping", softcap);
    ASSERT(root != NULL);
    add_ids(root, config);
    add_layer_fields(root, config);
    if (is_gemma4) {
        add_gemma4_fields(root, config, first);
    } else {
        const double scale = config->attention_scale;
        json_object_set_new(root, "query_pre_attn_scalar",
                            rounded_number(1.0 / (scale * scale)));
        json_object_set_new(root, "attn_logit_softcapping", json_null());
    }
    return root;
}
