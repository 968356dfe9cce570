/*
 * fuzz_config - any bytes as a config.json; what is accepted is a whole model: its tensor
 * table can be made, and its config written and read again says the same (G9).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Layer by layer, as padding inside the structs has any value. */
static void compare_layers(const struct model_config *a, const struct model_config *b)
{
    ASSERT(a->L == b->L && a->D == b->D && a->V == b->V && a->H == b->H);
    ASSERT(a->P == b->P && a->window == b->window && a->n_eos == b->n_eos);
    for (int i = 0; i < a->L; i++) {
        const struct layer_config *x = &a->layer[i];
        const struct layer_config *y = &b->layer[i];
        ASSERT(x->is_sliding == y->is_sliding && x->k_eq_v == y->k_eq_v);
        ASSERT(x->kv_source == y->kv_source && x->rotary_pairs == y->rotary_pairs);
        ASSERT(x->G == y->G && x->K == y->K && x->F == y->F);
    }
}

/* Whether layers of one kind are equal, as in every published model: the writer has no
 * form for exceptions, which only a config.json of somebody else can have. */
static bool is_regular(const struct model_config *config)
{
    const struct layer_config *first = &config->layer[0];
    bool is_double = true;
    for (int i = 0; i < config->L; i++) {
        const struct layer_config *layer = &config->layer[i];
        const bool owns = model_config_owns_kv(config, i);
        is_double = is_double && (owns || layer->F == 2 * first->F);
        if (layer->F != first->F && owns) {
            return false;
        }
        for (int k = 0; k < i; k++) {
            const struct layer_config *other = &config->layer[k];
            if (layer->is_sliding == other->is_sliding &&
                (layer->K != other->K || layer->G != other->G ||
                 layer->k_eq_v != other->k_eq_v)) {
                return false;
            }
        }
        if (layer->is_sliding && (layer->K != first->K || layer->G != first->G)) {
            return false;
        }
    }
    for (int i = 0; i < config->L; i++) {
        if (!is_double && config->layer[i].F != first->F) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error err = {.message = ""};
    json_t *root = json_parse((const char *)bytes, length, "input", &err);
    if (root == NULL) {
        ASSERT(err.message[0] != '\0');
        return 0;
    }
    struct model_config config;
    if (!model_config_from_json(root, "input", &config, &err)) {
        ASSERT(err.message[0] != '\0');
        json_decref(root);
        return 0;
    }
    struct params *params = params_create(&config);
    ASSERT(params->n > 0 && params->n_elements > 0);
    params_destroy(params);

    if (is_regular(&config)) {
        json_t *written = model_config_to_json(&config, DTYPE_BF16);
        struct model_config again;
        ASSERT(model_config_from_json(written, "written", &again, &err));
        compare_layers(&config, &again);
        json_decref(written);
    }
    json_decref(root);
    return 0;
}
