/*
 * config_json - the model_config of a config.json.
 *
 * Forms that are in use: text fields at the top level or in "text_config"; widths of
 * full layers in "global_head_dim" and "num_global_key_value_heads" (Hub) or in
 * "per_layer_config" (newer writers); rotary settings in "rope_parameters" per kind of
 * layer or in "rope_theta", "rope_local_base_freq" and "rope_scaling"; kinds of layers
 * in "layer_types" or as a period. JSON null is the same as an absent key.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "model/config.h"
#include "model/config_facts.h"

/* Reads fields of one object; after the first failure the rest gives fallbacks. */
struct fields {
    const json_t *object; /* borrowed; NULL: all fields are absent */
    const char *where;    /* file */
    const char *prefix;   /* "text_config." */
    struct error *err;
    bool ok; /* no fault has been told */
};

/* NULL when absent or null. */
static json_t *find(const struct fields *fields, const char *key)
{
    json_t *value = json_object_get(fields->object, key);
    return json_is_null(value) ? NULL : value;
}

/* Sets the error unless one is set: "WHERE: KEY is VALUE, expected EXPECTED", or
 * that the key is missing. Only the first fault of a file is told. */
static void fail(struct fields *fields, const char *key, const char *expected)
{
    if (!fields->ok) {
        return;
    }
    fields->ok = false;
    const json_t *value = find(fields, key);
    char *text =
        value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (text == NULL) {
        error_set(fields->err, ERROR_DATA, "%s: %s%s is missing, expected %s",
                  fields->where, fields->prefix, key, expected);
    } else {
        error_set(fields->err, ERROR_DATA, "%s: %s%s is %.60s, expected %s",
                  fields->where, fields->prefix, key, text, expected);
    }
    free(text);
}

/* A required integer from low to high. What is given back after a fault is in range
 * too, so that the code that follows needs no checks of its own. */
static int64_t integer(struct fields *fields, const char *key, int64_t low,
                       int64_t high)
{
    const json_t *value = find(fields, key);
    const int64_t number = (int64_t)json_integer_value(value);
    if (!json_is_integer(value) || number < low || number > high) {
        char expected[80];
        snprintf(expected, sizeof(expected), "an integer from %" PRId64 " to %" PRId64,
                 low, high);
        fail(fields, key, expected);
        return low;
    }
    return number;
}

/* Absent and null give `otherwise`, which need not be in range. */
static int64_t integer_or(struct fields *fields, const char *key, int64_t low,
                          int64_t high, int64_t otherwise)
{
    return find(fields, key) == NULL ? otherwise : integer(fields, key, low, high);
}

/* A positive number. */
static double number(struct fields *fields, const char *key)
{
    const json_t *value = find(fields, key);
    const double x = json_number_value(value);
    if (!json_is_number(value) || !(x > 0.0 && x <= 1e18)) {
        fail(fields, key, "a positive number");
        return 1.0;
    }
    return x;
}

/* Optional fields: absent and null give `otherwise`; a value of another kind is a
 * fault. */
static double number_or(struct fields *fields, const char *key, double otherwise)
{
    return find(fields, key) == NULL ? otherwise : number(fields, key);
}

/* Also true after a fault, where the value does not matter any more. */
static bool flag_or(struct fields *fields, const char *key, bool otherwise)
{
    const json_t *value = find(fields, key);
    if (value != NULL && !json_is_boolean(value)) {
        fail(fields, key, "true or false");
    }
    return value != NULL ? json_is_true(value) : otherwise;
}

/* The text is the JSON object's; it lives as long as that. */
static const char *text_or(struct fields *fields, const char *key,
                           const char *otherwise)
{
    const json_t *value = find(fields, key);
    if (value != NULL && !json_is_string(value)) {
        fail(fields, key, "a string");
    }
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

/* The fields of the object under `key`; all absent when it is absent. Faults do not
 * travel back by themselves: the caller joins the ok flags. */
static struct fields sub_fields(const struct fields *parent, const char *key,
                                const char *prefix)
{
    struct fields fields = *parent;
    fields.object = find(parent, key);
    fields.prefix = prefix;
    return fields;
}

/* Refuses what the graph cannot compute, each with the key's name. */
static void refuse_unsupported(struct fields *fields)
{
    if (flag_or(fields, "enable_moe_block", false)) {
        fail(fields, "enable_moe_block", "false: mixture of experts is not supported");
    }
    if (flag_or(fields, "attention_bias", false)) {
        fail(fields, "attention_bias", "false");
    }
    if (!flag_or(fields, "tie_word_embeddings", true)) {
        fail(fields, "tie_word_embeddings", "true");
    }
    if (strcmp(text_or(fields, "hidden_activation", "gelu_pytorch_tanh"),
               "gelu_pytorch_tanh") != 0) {
        fail(fields, "hidden_activation", "\"gelu_pytorch_tanh\"");
    }
    if (find(fields, "attn_logit_softcapping") != NULL) {
        fail(fields, "attn_logit_softcapping", "null");
    }
    const json_t *dropout = find(fields, "attention_dropout");
    if (dropout != NULL && json_number_value(dropout) != 0.0) {
        fail(fields, "attention_dropout", "0");
    }
    /* "vision" is causal for text. */
    const json_t *bidirectional = find(fields, "use_bidirectional_attention");
    if (bidirectional != NULL && !json_is_false(bidirectional) &&
        (!json_is_string(bidirectional) ||
         strcmp(json_string_value(bidirectional), "vision") != 0)) {
        fail(fields, "use_bidirectional_attention", "null, false or \"vision\"");
    }
}

/* Token ids. eos_token_id is one id or a list of them; models tuned for chat name
 * the end of a turn as well. */
static void read_ids(struct fields *fields, const struct fields *top,
                     struct model_config *base)
{
    base->pad_id = (int)integer_or(fields, "pad_token_id", 0, INT32_MAX, 0);
    base->bos_id = (int)integer_or(fields, "bos_token_id", 0, INT32_MAX, 2);
    /* A multimodal file's outer value is the complete one. */
    struct fields from = find(top, "eos_token_id") != NULL ? *top : *fields;
    const json_t *eos = find(&from, "eos_token_id");
    if (json_is_array(eos)) {
        const size_t n = json_array_size(eos);
        base->n_eos = (int)n;
        for (size_t i = 0; i < n && i < MODEL_MAX_EOS; i++) {
            const json_t *id = json_array_get(eos, i);
            const int64_t value = (int64_t)json_integer_value(id);
            const bool is_id = json_is_integer(id) && value >= 0 && value <= INT32_MAX;
            base->eos_id[i] = is_id ? (int)value : -1;
        }
        if (n < 1 || n > MODEL_MAX_EOS) {
            fail(&from, "eos_token_id", "one to eight token ids");
        }
    } else {
        base->eos_id[0] = (int)integer_or(&from, "eos_token_id", 0, INT32_MAX, 1);
    }
    fields->ok = fields->ok && from.ok;
}

/* The type of the tensors: "dtype", once called "torch_dtype", outside or inside of
 * "text_config". Absent means f32, which loses nothing when the model is written. */
static void read_dtype(struct fields *fields, const struct fields *top,
                       struct model_config *base)
{
    struct fields from = *fields;
    const char *key = "dtype";
    if (find(top, "dtype") != NULL) {
        from = *top;
    } else if (find(top, "torch_dtype") != NULL) {
        from = *top;
        key = "torch_dtype";
    } else if (find(fields, "dtype") == NULL) {
        key = "torch_dtype";
    }
    const char *name = text_or(&from, key, "float32");
    if (!config_facts_dtype(name, &base->dtype)) {
        fail(&from, key, "bfloat16, float16 or float32");
    }
    fields->ok = fields->ok && from.ok;
}

/* Which layers are sliding: a list, or one full layer in each period (6 unless
 * given). */
static void read_layer_types(struct fields *fields, struct config_facts *facts)
{
    const json_t *types = find(fields, "layer_types");
    const int L = facts->base.L;
    if (types == NULL) {
        /* Both spellings are in use. */
        const char *key = find(fields, "sliding_window_pattern") != NULL
                              ? "sliding_window_pattern"
                              : "_sliding_window_pattern";
        config_facts_set_period(facts, (int)integer_or(fields, key, 1, INT32_MAX, 6));
    } else if (!json_is_array(types) || json_array_size(types) != (size_t)L) {
        fail(fields, "layer_types", "one entry per layer");
        return;
    }
    for (int i = 0; i < L && types != NULL; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (type == NULL || (strcmp(type, "sliding_attention") != 0 &&
                             strcmp(type, "full_attention") != 0)) {
            fail(fields, "layer_types", "\"sliding_attention\" or \"full_attention\"");
            return;
        }
        facts->is_sliding[i] = strcmp(type, "sliding_attention") == 0;
    }
    /* As the reference implementation does for Gemma 4. */
    if (facts->base.family == MODEL_GEMMA4 && facts->is_sliding[L - 1]) {
        log_warning("%s: the last layer is made a full-attention layer", fields->where);
        facts->is_sliding[L - 1] = false;
    }
}

/* One rotary description: {"rope_type", "rope_theta", "factor", ...}. The theta may
 * stand elsewhere, and is then in `rope` already. */
static void read_rope(struct fields *fields, struct config_rope *rope)
{
    if (fields->object == NULL) {
        return; /* an error only if a layer needs it: model_config_check */
    }
    const char *type = text_or(fields, "rope_type", text_or(fields, "type", "default"));
    /* A theta that stands elsewhere is what this one may leave out. */
    rope->theta = rope->theta > 0.0 ? number_or(fields, "rope_theta", rope->theta)
                                    : number(fields, "rope_theta");
    rope->factor = 1.0;
    rope->partial = 1.0;
    if (strcmp(type, "linear") == 0) {
        rope->factor = number(fields, "factor");
    } else if (strcmp(type, "proportional") == 0) {
        rope->factor = number_or(fields, "factor", 1.0);
        rope->partial = number_or(fields, "partial_rotary_factor", 1.0);
        if (rope->partial > 1.0) {
            fail(fields, "partial_rotary_factor", "at most 1");
            rope->partial = 1.0;
        }
    } else if (strcmp(type, "default") != 0) {
        fail(fields, "rope_type", "default, linear or proportional");
    } else if (number_or(fields, "partial_rotary_factor", 1.0) != 1.0) {
        fail(fields, "partial_rotary_factor", "1 with rope_type default");
    }
}

/* Both rotary descriptions. Newer files have one object per kind of layer; older
 * ones of Gemma 3 one base for each kind at the top level, and rope_scaling for full
 * layers alone. */
static void read_ropes(struct fields *fields, struct config_facts *facts)
{
    struct config_rope *full = &facts->rope[0];
    struct config_rope *sliding = &facts->rope[1];
    full->theta = 1e6;
    sliding->theta = 1e4;
    struct fields all = sub_fields(fields, "rope_parameters", "rope_parameters.");
    if (find(&all, "full_attention") != NULL ||
        find(&all, "sliding_attention") != NULL) {
        struct fields one =
            sub_fields(&all, "full_attention", "rope_parameters.full_attention.");
        /* In this form each description has to give its own. */
        full->theta = 0.0;
        sliding->theta = 0.0;
        read_rope(&one, full);
        struct fields two =
            sub_fields(&all, "sliding_attention", "rope_parameters.sliding_attention.");
        read_rope(&two, sliding);
        fields->ok = fields->ok && one.ok && two.ok;
        return;
    }
    if (facts->base.family == MODEL_GEMMA4) {
        fail(fields, "rope_parameters", "full_attention and sliding_attention in it");
        return;
    }
    full->theta = number_or(fields, "rope_theta", full->theta);
    sliding->theta = number_or(fields, "rope_local_base_freq", sliding->theta);
    /* Without rope_parameters the scaling of full layers stands by itself. */
    const bool is_old = all.object == NULL;
    struct fields scaling =
        is_old ? sub_fields(fields, "rope_scaling", "rope_scaling.") : all;
    if (scaling.object != NULL) {
        read_rope(&scaling, full);
        fields->ok = fields->ok && scaling.ok;
    }
}

/* {"4": {"head_dim": 512, "num_key_value_heads": 1}, ...} */
static void read_layer_overrides(struct fields *fields, struct config_facts *facts)
{
    json_t *map = find(fields, "per_layer_config");
    if (!json_is_object(map)) {
        fail(fields, "per_layer_config", "an object");
        return;
    }
    const char *index;
    json_t *entry;
    json_object_foreach(map, index, entry)
    {
        /* The key has to be a number and nothing else. */
        char *end;
        const long i = strtol(index, &end, 10);
        struct fields layer = *fields;
        layer.object = entry;
        layer.prefix = "per_layer_config.N.";
        if (*index == '\0' || *end != '\0' || i < 0 || i >= facts->base.L ||
            !json_is_object(entry)) {
            fail(fields, "per_layer_config", "objects named by layer numbers");
            return;
        }
        const char *key;
        json_t *value;
        json_object_foreach(entry, key, value)
        {
            if (strcmp(key, "head_dim") == 0) {
                facts->layer_head_dim[i] = integer(&layer, key, 2, 1 << 20);
            } else if (strcmp(key, "num_key_value_heads") == 0) {
                facts->layer_kv_heads[i] = integer(&layer, key, 1, 1024);
            } else {
                fail(&layer, key, "only head_dim and num_key_value_heads here");
            }
        }
        fields->ok = fields->ok && layer.ok;
    }
}

/* What only Gemma 4 has: per-layer embeddings, shared K and V, wider full layers. Newer
 * files say widths per layer in place of those of full layers. */
static void read_gemma4(struct fields *fields, struct config_facts *facts)
{
    struct model_config *base = &facts->base;
    base->P = integer(fields, "hidden_size_per_layer_input", 0, 1 << 20);
    if (base->P > 0) {
        base->per_layer_V =
            integer_or(fields, "vocab_size_per_layer_input", 1, 1 << 24, base->V);
    }
    facts->n_shared = (int)integer_or(fields, "num_kv_shared_layers", 0, 1 << 20, 0);
    facts->is_shared_mlp_double = flag_or(fields, "use_double_wide_mlp", false);
    facts->k_eq_v = flag_or(fields, "attention_k_eq_v", false);
    if (find(fields, "per_layer_config") != NULL) {
        read_layer_overrides(fields, facts);
    } else {
        facts->full_head_dim = integer(fields, "global_head_dim", 2, 1 << 20);
        facts->full_kv_heads =
            integer_or(fields, "num_global_key_value_heads", 1, 1024, 0);
    }
}

/* All fields of the text model; `top` is the outer object where they are nested.
 * Layers are looked at only when the counts above them are good. */
static void read_text_fields(struct fields *fields, const struct fields *top,
                             struct config_facts *facts)
{
    struct model_config *base = &facts->base;
    refuse_unsupported(fields);
    base->D = integer(fields, "hidden_size", 1, 1 << 20);
    base->L = (int)integer(fields, "num_hidden_layers", 1, MODEL_MAX_LAYERS);
    base->H = integer(fields, "num_attention_heads", 1, 1024);
    base->V = integer(fields, "vocab_size", 1, 1 << 24);
    base->window = integer(fields, "sliding_window", 1, INT32_MAX);
    base->max_positions =
        integer_or(fields, "max_position_embeddings", 1, INT32_MAX, 131072);
    base->rms_eps = number_or(fields, "rms_norm_eps", base->rms_eps);
    base->initializer_range =
        number_or(fields, "initializer_range", base->initializer_range);
    base->final_softcap = number_or(fields, "final_logit_softcapping", 0.0);
    facts->head_dim = integer(fields, "head_dim", 2, 1 << 20);
    facts->full_head_dim = facts->head_dim;
    facts->kv_heads = integer(fields, "num_key_value_heads", 1, 1024);
    facts->mlp_width = integer(fields, "intermediate_size", 1, 1 << 20);
    read_ids(fields, top, base);
    read_dtype(fields, top, base);
    if (fields->ok) {
        read_layer_types(fields, facts);
        read_ropes(fields, facts);
    }
    if (fields->ok && base->family == MODEL_GEMMA4) {
        read_gemma4(fields, facts);
    } else if (fields->ok) {
        facts->query_scalar = number(fields, "query_pre_attn_scalar");
    }
}

/* Outer types hold the text model in "text_config". */
static const struct {
    const char *model_type;
    enum model_family family;
    bool is_nested; /* fields are in "text_config" */
} model_types[] = {
    {"gemma3_text", MODEL_GEMMA3, false},
    {"gemma3", MODEL_GEMMA3, true},
    {"gemma4_text", MODEL_GEMMA4, false},
    {"gemma4", MODEL_GEMMA4, true},
    {"gemma4_unified_text", MODEL_GEMMA4, false},
    {"gemma4_unified", MODEL_GEMMA4, true},
};

/* Later faults do not hide earlier ones: `fields` keeps the first. */
bool model_config_from_json(json_t *root, const char *where,
                            struct model_config *config, struct error *err)
{
    struct fields top = {root, where, "", err, true};
    if (!json_is_object(root)) {
        return error_set(err, ERROR_DATA, "%s: expected a JSON object", where);
    }
    const char *type = text_or(&top, "model_type", "");
    for (size_t i = 0; i < ARRAY_LENGTH(model_types); i++) {
        if (strcmp(model_types[i].model_type, type) != 0) {
            continue;
        }
        struct fields fields = top;
        if (model_types[i].is_nested) {
            fields = sub_fields(&top, "text_config", "text_config.");
            if (!json_is_object(fields.object)) {
                fail(&top, "text_config", "an object");
                return false;
            }
        }
        struct config_facts facts;
        config_facts_init(&facts, model_types[i].family);
        read_text_fields(&fields, &top, &facts);
        return fields.ok && config_resolve(&facts, where, config, err);
    }
    fail(&top, "model_type",
         "gemma3_text, gemma3, gemma4_text, gemma4 or gemma4_unified");
    return false;
}
