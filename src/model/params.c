/*
 * params - see params.h. One table says what each role is called, which shape it has
 * and which models and layers own it; everything else follows from that table.
 */
#include "model/params.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "model/config.h"

/* A dimension, named by what it counts; products as in "H*K". */
enum extent { NONE, ONE, V, PLE_V, D, P, LP, HK, GK, K, F };

/* Which models and layers have the tensor. */
enum owner { ALWAYS, IF_PLE, IF_OWN_KV, IF_OWN_V, IF_LAYER_SCALAR };

static const struct role {
    const char *name;
    enum extent dim[2]; /* [out, in], or [length, NONE] */
    enum owner owner;
    bool is_layer;
    bool is_norm;
} roles[PARAM_ROLE_COUNT] = {
    // clang-format off
    [PARAM_EMBED]          = {"embed_tokens.weight",               {V, D},      ALWAYS, false, false},
    [PARAM_PLE_TABLE]      = {"embed_tokens_per_layer.weight",     {PLE_V, LP}, IF_PLE, false, false},
    [PARAM_PLE_MODEL]      = {"per_layer_model_projection.weight", {LP, D},     IF_PLE, false, false},
    [PARAM_PLE_MODEL_NORM] = {"per_layer_projection_norm.weight",  {P, NONE},   IF_PLE, false, true},
    [PARAM_INPUT_NORM]     = {"input_layernorm.weight",            {D, NONE},   ALWAYS, true, true},
    [PARAM_Q]              = {"self_attn.q_proj.weight",           {HK, D},     ALWAYS, true, false},
    [PARAM_K]              = {"self_attn.k_proj.weight",           {GK, D},     IF_OWN_KV, true, false},
    [PARAM_V]              = {"self_attn.v_proj.weight",           {GK, D},     IF_OWN_V, true, false},
    [PARAM_O]              = {"self_attn.o_proj.weight",           {D, HK},     ALWAYS, true, false},
    [PARAM_Q_NORM]         = {"self_attn.q_norm.weight",           {K, NONE},   ALWAYS, true, true},
    [PARAM_K_NORM]         = {"self_attn.k_norm.weight",           {K, NONE},   IF_OWN_KV, true, true},
    [PARAM_POST_ATTENTION_NORM] = {"post_attention_layernorm.weight", {D, NONE}, ALWAYS, true, true},
    [PARAM_PRE_MLP_NORM]   = {"pre_feedforward_layernorm.weight",  {D, NONE},   ALWAYS, true, true},
    [PARAM_GATE]           = {"mlp.gate_proj.weight",              {F, D},      ALWAYS, true, false},
    [PARAM_UP]             = {"mlp.up_proj.weight",                {F, D},      ALWAYS, true, false},
    [PARAM_DOWN]           = {"mlp.down_proj.weight",              {D, F},      ALWAYS, true, false},
    [PARAM_POST_MLP_NORM]  = {"post_feedforward_layernorm.weight", {D, NONE},   ALWAYS, true, true},
    [PARAM_PLE_GATE]       = {"per_layer_input_gate.weight",       {P, D},      IF_PLE, true, false},
    [PARAM_PLE_OUT]        = {"per_layer_projection.weight",       {D, P},      IF_PLE, true, false},
    [PARAM_PLE_NORM]       = {"post_per_layer_input_norm.weight",  {D, NONE},   IF_PLE, true, true},
    [PARAM_LAYER_SCALAR]   = {"layer_scalar",                      {ONE, NONE}, IF_LAYER_SCALAR, true, false},
    [PARAM_FINAL_NORM]     = {"norm.weight",                       {D, NONE},   ALWAYS, false, true},
    // clang-format on
};

/* Layers that share K and V, and those whose V is their raw K, own fewer tensors. */
static bool is_owned(const struct model_config *config, enum owner owner, int layer)
{
    switch (owner) {
    case ALWAYS:
        return true;
    case IF_PLE:
        return config->P > 0;
    case IF_OWN_KV:
        return model_config_owns_kv(config, layer);
    case IF_OWN_V:
        return model_config_owns_kv(config, layer) && !config->layer[layer].k_eq_v;
    case IF_LAYER_SCALAR:
        return config->has_layer_scalar;
    }
    UNREACHABLE();
}

/* `layer` is any layer for model-wide extents. */
static int64_t extent_size(const struct model_config *config, enum extent extent,
                           int layer)
{
    const struct layer_config *facts = &config->layer[layer];
    switch (extent) {
    case NONE:
    case ONE:
        return 1;
    case V:
        return config->V;
    case PLE_V:
        return config->per_layer_V;
    case D:
        return config->D;
    case P:
        return config->P;
    case LP:
        return config->L * config->P;
    case HK:
        return config->H * facts->K;
    case GK:
        return facts->G * facts->K;
    case K:
        return facts->K;
    case F:
        return facts->F;
    }
    UNREACHABLE();
}

/* Appends the tensor to the table when the model has it; layer -1 = model-wide. */
static void add_param(struct params *params, struct param_info *info,
                      const struct model_config *config, enum param_role role,
                      int layer)
{
    const struct role *row = &roles[role];
    const int facts_of = layer < 0 ? 0 : layer;
    if (!is_owned(config, row->owner, facts_of)) {
        return;
    }
    struct param_info *param = &info[params->n++];
    *param = (struct param_info){
        .name = layer < 0 ? arena_printf(params->arena, "model.%s", row->name)
                          : arena_printf(params->arena, "model.layers.%d.%s", layer,
                                         row->name),
        .role = role,
        .layer = layer,
        .base = -1,
        .rank = row->dim[1] == NONE ? 1 : 2,
        .dim = {extent_size(config, row->dim[0], facts_of),
                extent_size(config, row->dim[1], facts_of)},
        .is_norm = row->is_norm,
        .is_trainable_by_default = role != PARAM_LAYER_SCALAR,
    };
    param->n_elements = param->dim[0] * param->dim[1];
    params->n_elements += param->n_elements;
}

/* Roles are in the order of the enum, which is the order of this table. */
struct params *params_create(const struct model_config *config)
{
    struct arena *arena = arena_create();
    struct params *params = arena_alloc(arena, sizeof(*params));
    /* At most every role in every layer, and once for the model. */
    const size_t most = (size_t)PARAM_ROLE_COUNT * (size_t)(config->L + 1);
    struct param_info *info = arena_alloc_array(arena, most, sizeof(*info));
    params->arena = arena;
    params->info = info;

    for (int role = PARAM_EMBED; role <= PARAM_PLE_MODEL_NORM; role++) {
        add_param(params, info, config, (enum param_role)role, -1);
    }
    for (int layer = 0; layer < config->L; layer++) {
        for (int role = PARAM_INPUT_NORM; role <= PARAM_LAYER_SCALAR; role++) {
            add_param(params, info, config, (enum param_role)role, layer);
        }
    }
    add_param(params, info, config, PARAM_FINAL_NORM, -1);
    params->n_model = params->n;
    return params;
}

/* A [r, in] or B [out, r] of the weight: its name with the matrix before ".weight". */
static void add_adapter(struct params *params, struct param_info *info, int base,
                        enum param_role side, int64_t rank)
{
    const struct param_info *weight = &info[base];
    const int stem = (int)(strlen(weight->name) - strlen(".weight"));
    struct param_info *param = &info[params->n++];
    *param = (struct param_info){
        .name = arena_printf(params->arena, "%.*s.%s.weight", stem, weight->name,
                             side == PARAM_LORA_A ? "lora_A" : "lora_B"),
        .role = side,
        .layer = weight->layer,
        .base = base,
        .rank = 2,
        .dim = {side == PARAM_LORA_A ? rank : weight->dim[0],
                side == PARAM_LORA_A ? weight->dim[1] : rank},
        .is_trainable_by_default = true,
    };
    param->n_elements = param->dim[0] * param->dim[1];
    params->n_adapter_elements += param->n_elements;
}

/* The rows move to a larger array; the old one stays in the arena, unused. */
void params_add_adapters(struct params *params, const bool *has_adapter, int64_t rank,
                         double scale)
{
    ASSERT(params->n == params->n_model && rank > 0);
    const size_t n_model = (size_t)params->n_model;
    struct param_info *info =
        arena_alloc_array(params->arena, 3 * n_model, sizeof(*info));
    memcpy(info, params->info, n_model * sizeof(*info));
    int n_layers = 0;
    for (int i = 0; i < params->n_model; i++) {
        n_layers = (int)base_max(n_layers, info[i].layer + 1);
    }
    uint32_t *adapted =
        arena_alloc_array(params->arena, (size_t)n_layers, sizeof(*adapted));
    static_assert(PARAM_ROLE_COUNT <= 32, "a bit for each role");
    for (int i = 0; i < params->n_model; i++) {
        if (has_adapter[i]) {
            ASSERT(info[i].rank == 2 && info[i].layer >= 0);
            add_adapter(params, info, i, PARAM_LORA_A, rank);
            add_adapter(params, info, i, PARAM_LORA_B, rank);
            adapted[info[i].layer] |= UINT32_C(1) << info[i].role;
        }
    }
    params->info = info;
    params->adapted = adapted;
    params->lora_scale = scale;
}

void params_destroy(struct params *params)
{
    if (params != NULL) {
        arena_destroy(params->arena);
    }
}

/* Linear over some hundred rows, when graphs are built and files are opened. */
int params_index(const struct params *params, enum param_role role, int layer)
{
    for (int i = 0; i < params->n_model; i++) {
        if (params->info[i].role == role && params->info[i].layer == layer) {
            return i;
        }
    }
    return -1;
}

/* Of the first of a role, and of those that are like it. */
void params_unify_dtypes(const struct params *params, enum dtype *stored)
{
    int first[PARAM_ROLE_COUNT];
    bool is_mixed[PARAM_ROLE_COUNT] = {false};
    memset(first, -1, sizeof(first));
    for (int i = 0; i < params->n_model; i++) {
        const enum param_role role = params->info[i].role;
        first[role] = first[role] < 0 ? i : first[role];
        is_mixed[role] = is_mixed[role] || stored[i] != stored[first[role]];
    }
    for (int i = 0; i < params->n_model; i++) {
        stored[i] = is_mixed[params->info[i].role] ? DTYPE_F32 : stored[i];
    }
}

/* The rows of adapters are in the order of their weights. */
int params_adapter(const struct params *params, enum param_role side, int base)
{
    for (int i = params->n_model; i < params->n; i++) {
        if (params->info[i].role == side && params->info[i].base == base) {
            return i;
        }
    }
    return -1;
}

/* By the text-only name; names in files may begin otherwise (weights.c). */
int params_find(const struct params *params, const char *name)
{
    for (int i = 0; i < params->n; i++) {
        if (strcmp(params->info[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *params_role_name(enum param_role role)
{
    return roles[role].name;
}

bool params_role_is_layer(enum param_role role)
{
    return roles[role].is_layer;
}
