/*
 * weights_gguf - the tensors of a Gemma 3 text model in a GGUF file.
 *
 * A GGUF matrix with ne = (in, out) has the memory order of the row-major [out, in]
 * matrix of the parameter table. The rotary table that some files carry is not needed.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/config.h"
#include "model/params.h"
#include "model/weights_parts.h"

/* GGUF names of the roles, after "blk.N." for those of a layer; NULL: not in Gemma
 * 3. */
static const char *const names[PARAM_ROLE_COUNT] = {
    [PARAM_EMBED] = "token_embd.weight",
    [PARAM_INPUT_NORM] = "attn_norm.weight",
    [PARAM_Q] = "attn_q.weight",
    [PARAM_K] = "attn_k.weight",
    [PARAM_V] = "attn_v.weight",
    [PARAM_O] = "attn_output.weight",
    [PARAM_Q_NORM] = "attn_q_norm.weight",
    [PARAM_K_NORM] = "attn_k_norm.weight",
    [PARAM_POST_ATTENTION_NORM] = "post_attention_norm.weight",
    [PARAM_PRE_MLP_NORM] = "ffn_norm.weight",
    [PARAM_GATE] = "ffn_gate.weight",
    [PARAM_UP] = "ffn_up.weight",
    [PARAM_DOWN] = "ffn_down.weight",
    [PARAM_POST_MLP_NORM] = "post_ffw_norm.weight",
    [PARAM_FINAL_NORM] = "output_norm.weight",
};

/* The parameter called `name` in a GGUF file, or -1. A layer's tensor needs the
 * "blk.N." in front, one of the model must not have it. */
static int find_param(const struct params *params, const char *name)
{
    int layer = -1;
    int end = 0;
    /* %n is set only if the second dot was there too. */
    if (sscanf(name, "blk.%d.%n", &layer, &end) != 1 || end == 0) {
        layer = -1;
        end = 0;
    }
    for (int role = 0; role < PARAM_ROLE_COUNT; role++) {
        if (names[role] != NULL && strcmp(names[role], name + end) == 0 &&
            params_role_is_layer((enum param_role)role) == (end > 0)) {
            return params_index(params, (enum param_role)role, layer);
        }
    }
    return -1;
}

/* GGUF sizes come innermost first, the table wants them outermost first. */
static bool place_tensor(struct weights *weights, const struct gguf_tensor *tensor,
                         struct error *err)
{
    const int param = find_param(weights->params, tensor->name);
    if (param < 0) {
        const bool is_known = strcmp(tensor->name, "output.weight") == 0 ||
                              strcmp(tensor->name, "rope_freqs.weight") == 0;
        weights_names_add(is_known ? &weights->skipped : &weights->unknown,
                          tensor->name);
        return true;
    }
    int64_t dim[GGUF_MAX_RANK]; /* outermost first */
    for (int i = 0; i < tensor->rank; i++) {
        dim[i] = tensor->ne[tensor->rank - 1 - i];
    }
    if (!weights_check_tensor(weights, param, tensor->name, tensor->rank, dim,
                              weights->places[param].tensor != NULL, err)) {
        return false;
    }
    weights->places[param].tensor = tensor;
    return true;
}

bool weights_open_gguf(struct weights *weights, struct error *err)
{
    if (weights->config->family != MODEL_GEMMA3) {
        return error_set(err, ERROR_DATA, "%s: of GGUF files only Gemma 3 can be read",
                         weights->path);
    }
    weights->gguf = gguf_open(weights->path, err);
    if (weights->gguf == NULL) {
        return false;
    }
    for (size_t i = 0; i < gguf_n_tensors(weights->gguf); i++) {
        if (!place_tensor(weights, gguf_tensor_at(weights->gguf, i), err)) {
            return false;
        }
    }
    return true;
}
