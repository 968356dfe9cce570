/*
 * config_gguf - the model_config of a GGUF file of a Gemma 3 text model.
 *
 * Such files leave out what their reader is expected to know: the rotary base of
 * sliding layers (10000), the period of full layers (6), the size of the vocabulary
 * (that of the token list). Those values are built in here.
 */
#include <string.h>

#include "base/error.h"
#include "formats/gguf.h"
#include "model/config.h"
#include "model/config_facts.h"

/* Reads the keys one after the other; after the first failure the rest gives zeros. */
struct keys {
    const struct gguf *file;
    struct error *err;
    bool ok; /* nothing has failed so far */
};

/* The error is set by the reader of the key, which names it. */
static int64_t read_integer(struct keys *keys, const char *key)
{
    int64_t value = 0;
    if (keys->ok && !gguf_integer(keys->file, key, &value, keys->err)) {
        keys->ok = false;
    }
    return value;
}

/* As above, for what the file has as a float. */
static double read_float(struct keys *keys, const char *key)
{
    double value = 0.0;
    if (keys->ok && !gguf_float(keys->file, key, &value, keys->err)) {
        keys->ok = false;
    }
    return value;
}

/* A key that is absent is fine; one of another kind is not. */
static int64_t read_integer_or(struct keys *keys, const char *key, int64_t otherwise)
{
    return gguf_has(keys->file, key) ? read_integer(keys, key) : otherwise;
}

static double read_float_or(struct keys *keys, const char *key, double otherwise)
{
    return gguf_has(keys->file, key) ? read_float(keys, key) : otherwise;
}

/* Clamped: model_config_check then names the value's key. */
static int to_int(int64_t value)
{
    return (int)base_max(-1, base_min(value, INT32_MAX));
}

/* Only Gemma 3: Gemma 4 has other names, and norms that are not stored as 1 + w. */
static bool check_architecture(const struct gguf *file, const char *where,
                               struct error *err)
{
    const char *architecture = gguf_string(file, "general.architecture", err);
    if (architecture == NULL) {
        return false;
    }
    if (strcmp(architecture, "gemma3") != 0) {
        return error_set(err, ERROR_DATA,
                         "%s: general.architecture is \"%s\"; of GGUF files only "
                         "\"gemma3\" can be read",
                         where, architecture);
    }
    if (gguf_has(file, "gemma3.rope.scaling.type")) {
        const char *type = gguf_string(file, "gemma3.rope.scaling.type", err);
        if (type == NULL) {
            return false;
        }
        if (strcmp(type, "linear") != 0 && strcmp(type, "none") != 0) {
            return error_set(err, ERROR_DATA,
                             "%s: gemma3.rope.scaling.type is \"%s\", expected linear",
                             where, type);
        }
    }
    return true;
}

/* The token list is the vocabulary; its size has no key of its own. */
static int64_t read_vocabulary(struct keys *keys)
{
    size_t n = 0;
    if (keys->ok &&
        gguf_texts(keys->file, "tokenizer.ggml.tokens", &n, keys->err) == NULL) {
        keys->ok = false;
    }
    return (int64_t)n;
}

/* All keys are read before the first check, so the message is about the first key that
 * is missing, in this order. */
bool model_config_read_gguf(const struct gguf *file, const char *where,
                            struct model_config *config, struct error *err)
{
    if (!check_architecture(file, where, err)) {
        return false;
    }
    struct keys keys = {file, err, true};
    struct config_facts facts;
    config_facts_init(&facts, MODEL_GEMMA3);
    struct model_config *base = &facts.base;
    base->D = read_integer(&keys, "gemma3.embedding_length");
    base->L = to_int(read_integer(&keys, "gemma3.block_count"));
    base->H = read_integer(&keys, "gemma3.attention.head_count");
    base->V = read_vocabulary(&keys);
    base->window = read_integer(&keys, "gemma3.attention.sliding_window");
    base->max_positions = read_integer(&keys, "gemma3.context_length");
    base->rms_eps = read_float(&keys, "gemma3.attention.layer_norm_rms_epsilon");
    base->final_softcap = read_float_or(&keys, "gemma3.final_logit_softcapping", 0.0);
    base->dtype = DTYPE_BF16; /* what these models are published in */
    base->pad_id = to_int(read_integer_or(&keys, "tokenizer.ggml.padding_token_id", 0));
    base->bos_id = to_int(read_integer_or(&keys, "tokenizer.ggml.bos_token_id", 2));
    base->eos_id[0] = to_int(read_integer_or(&keys, "tokenizer.ggml.eos_token_id", 1));
    /* Files of chat models name the end of a turn as well, as config.json does. */
    base->eos_id[1] =
        to_int(read_integer_or(&keys, "tokenizer.ggml.eot_token_id", base->eos_id[0]));
    base->n_eos = base->eos_id[1] == base->eos_id[0] ? 1 : 2;
    facts.head_dim = read_integer(&keys, "gemma3.attention.key_length");
    facts.full_head_dim = facts.head_dim;
    facts.kv_heads = read_integer(&keys, "gemma3.attention.head_count_kv");
    facts.mlp_width = read_integer(&keys, "gemma3.feed_forward_length");
    facts.query_scalar = (double)facts.head_dim;
    facts.rope[0].theta = read_float_or(&keys, "gemma3.rope.freq_base", 1e6);
    facts.rope[0].factor = read_float_or(&keys, "gemma3.rope.scaling.factor", 1.0);
    facts.rope[1].theta = read_float_or(&keys, "gemma3.rope.freq_base_swa", 1e4);
    const int64_t value_length =
        read_integer_or(&keys, "gemma3.attention.value_length", facts.head_dim);
    if (!keys.ok) {
        return error_wrap(err, "%s", where);
    }
    if (value_length != facts.head_dim) {
        return error_set(err, ERROR_DATA,
                         "%s: gemma3.attention.value_length is %lld, expected the "
                         "key_length %lld",
                         where, (long long)value_length, (long long)facts.head_dim);
    }
    /* f32 in the file: 1e-6 is meant, not its nearest f32. */
    if ((float)base->rms_eps == 1e-6F) {
        base->rms_eps = 1e-6;
    }
    if (base->L >= 1 && base->L <= MODEL_MAX_LAYERS) {
        config_facts_set_period(&facts, 6);
    }
    return config_resolve(&facts, where, config, err);
}
