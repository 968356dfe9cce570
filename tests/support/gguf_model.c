/*
 * gguf_model - a small Gemma 3 as a GGUF file, for tests.
 */
#include "support/gguf_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/params.h"

/* A GGUF tensor of each parameter of a model with D 32, values from the table index. */
void gguf_model_add_tensors(struct gguf_build *build, const struct params *params)
{
    static const struct {
        enum param_role role;
        const char *name;
    } names[] = {
        {PARAM_EMBED, "token_embd.weight"},
        {PARAM_INPUT_NORM, "attn_norm.weight"},
        {PARAM_Q, "attn_q.weight"},
        {PARAM_K, "attn_k.weight"},
        {PARAM_V, "attn_v.weight"},
        {PARAM_O, "attn_output.weight"},
        {PARAM_Q_NORM, "attn_q_norm.weight"},
        {PARAM_K_NORM, "attn_k_norm.weight"},
        {PARAM_POST_ATTENTION_NORM, "post_attention_norm.weight"},
        {PARAM_PRE_MLP_NORM, "ffn_norm.weight"},
        {PARAM_GATE, "ffn_gate.weight"},
        {PARAM_UP, "ffn_up.weight"},
        {PARAM_DOWN, "ffn_down.weight"},
        {PARAM_POST_MLP_NORM, "post_ffw_norm.weight"},
        {PARAM_FINAL_NORM, "output_norm.weight"},
    };
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        const char *name = NULL;
        for (size_t j = 0; j < ARRAY_LENGTH(names); j++) {
            name = names[j].role == info->role ? names[j].name : name;
        }
        assert_non_null(name);
        struct str full = {0};
        if (info->layer >= 0) {
            str_printf(&full, "blk.%d.%s", info->layer, name);
        } else {
            str_add(&full, name);
        }
        if (info->rank == 1) {
            float *values = mem_alloc_array((size_t)info->dim[0], sizeof(*values));
            for (int64_t j = 0; j < info->dim[0]; j++) {
                values[j] = 1.0f + (float)i + (float)j / 64.0f;
            }
            gguf_build_tensor(build, full.text, info->dim[0], 0, QUANT_F32, values);
            mem_free(values);
        } else {
            /* Q8_0 with scale 1: value = (parameter + block) mod 100 */
            const size_t n_blocks = (size_t)info->n_elements / 32;
            unsigned char *blocks = mem_alloc(n_blocks * 34);
            for (size_t j = 0; j < n_blocks; j++) {
                blocks[j * 34 + 1] = 0x3C;
                memset(blocks + j * 34 + 2, (int)(((size_t)i + j) % 100), 32);
            }
            gguf_build_tensor(build, full.text, info->dim[1], info->dim[0], QUANT_Q8_0,
                              blocks);
            mem_free(blocks);
        }
        str_deinit(&full);
    }
}

void gguf_model_add_keys(struct gguf_build *build)
{
    static const struct {
        const char *key;
        uint32_t value;
    } integers[] = {
        {"gemma3.embedding_length", 32},     {"gemma3.block_count", 6},
        {"gemma3.attention.head_count", 2},  {"gemma3.attention.head_count_kv", 1},
        {"gemma3.attention.key_length", 16}, {"gemma3.feed_forward_length", 64},
        {"gemma3.context_length", 64},       {"gemma3.attention.sliding_window", 8},
    };
    gguf_build_string(build, "general.architecture", "gemma3");
    for (size_t i = 0; i < ARRAY_LENGTH(integers); i++) {
        gguf_build_integer(build, integers[i].key, integers[i].value);
    }
    gguf_build_float(build, "gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
}
