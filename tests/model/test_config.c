/*
 * Every form of config.json gives the same facts; faults are named by key; published
 * sizes have their known parameter counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/gguf.h"
#include "model/config.h"

static void assert_same_config(const struct model_config *a,
                               const struct model_config *b)
{
    assert_int_equal(a->family, b->family);
    assert_int_equal(a->D, b->D);
    assert_int_equal(a->V, b->V);
    assert_int_equal(a->H, b->H);
    assert_int_equal(a->L, b->L);
    assert_int_equal(a->P, b->P);
    assert_int_equal(a->per_layer_V, b->per_layer_V);
    assert_int_equal(a->window, b->window);
    assert_int_equal(a->max_positions, b->max_positions);
    assert_true(a->rms_eps == b->rms_eps);
    assert_true(fabs(a->attention_scale - b->attention_scale) <= 1e-15);
    assert_true(a->final_softcap == b->final_softcap);
    assert_true(a->embed_scale == b->embed_scale);
    assert_true(a->initializer_range == b->initializer_range);
    assert_int_equal(a->norm_adds_one, b->norm_adds_one);
    assert_int_equal(a->has_v_norm, b->has_v_norm);
    assert_int_equal(a->has_layer_scalar, b->has_layer_scalar);
    assert_int_equal(a->bos_id, b->bos_id);
    assert_int_equal(a->n_eos, b->n_eos);
    assert_memory_equal(a->eos_id, b->eos_id, sizeof(a->eos_id));
    assert_int_equal(a->dtype, b->dtype);
    for (int i = 0; i < a->L; i++) {
        const struct layer_config *x = &a->layer[i];
        const struct layer_config *y = &b->layer[i];
        assert_int_equal(x->is_sliding, y->is_sliding);
        assert_int_equal(x->k_eq_v, y->k_eq_v);
        assert_int_equal(x->kv_source, y->kv_source);
        assert_int_equal(x->G, y->G);
        assert_int_equal(x->K, y->K);
        assert_int_equal(x->F, y->F);
        assert_true(x->rope_theta == y->rope_theta);
        assert_true(x->rope_factor == y->rope_factor);
        assert_int_equal(x->rotary_pairs, y->rotary_pairs);
    }
}

static void read_config(const char *path, struct model_config *config)
{
    struct error err = {.message = ""};
    json_t *root = json_read_file(path, 1 << 20, &err);
    if (root == NULL || !model_config_from_json(root, path, config, &err)) {
        fail_msg("%s", err.message);
    }
    json_decref(root);
}

/* The config of a golden model with one key set to JSON text (NULL: deleted), inside
 * the object `inside` when that is not NULL. */
static json_t *changed(const char *model, const char *inside, const char *key,
                       const char *value)
{
    struct error err;
    char *path = file_join("tests/golden", model);
    json_t *root = json_read_file(path, 1 << 20, &err);
    assert_non_null(root);
    json_t *object = inside != NULL ? json_object_get(root, inside) : root;
    if (value == NULL) {
        json_object_del(object, key);
    } else {
        json_object_set_new(object, key, json_loads(value, JSON_DECODE_ANY, NULL));
    }
    mem_free(path);
    return root;
}

static const char *const e2b = "gemma4-e2b-tiny/config.json";
static const char *const g3 = "gemma3-tiny/config.json";

static void test_forms_of_one_model_agree(void **state)
{
    (void)state;
    static const char *const models[] = {"gemma3-tiny", "gemma4-e2b-tiny",
                                         "gemma4-e4b-tiny", "gemma4-31b-tiny"};
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        char *folder = file_join("tests/golden", models[i]);
        char *newer = file_join(folder, "config_v5.json");
        struct model_config a;
        struct model_config b;
        struct error err;
        assert_true(model_config_read(folder, &a, &err));
        read_config(newer, &b);
        assert_same_config(&a, &b);
        mem_free(newer);
        mem_free(folder);
    }
    struct model_config flat;
    struct model_config nested;
    struct error err;
    assert_true(model_config_read("tests/golden/gemma4-e2b-tiny", &flat, &err));
    assert_true(
        model_config_read("tests/golden/gemma4-e2b-tiny-nested", &nested, &err));
    assert_same_config(&flat, &nested);
}

static void test_facts_of_e2b(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma4-e2b", &config));
    assert_int_equal(config.L, 35);
    for (int i = 0; i < config.L; i++) {
        const struct layer_config *layer = &config.layer[i];
        const bool is_full = i % 5 == 4;
        assert_int_equal(layer->is_sliding, !is_full);
        assert_int_equal(layer->K, is_full ? 512 : 256);
        assert_int_equal(layer->rotary_pairs, is_full ? 64 : 128);
        assert_true(layer->rope_theta == (is_full ? 1e6 : 1e4));
        assert_int_equal(layer->G, 1);
        assert_int_equal(layer->F, i < 15 ? 6144 : 12288);
        assert_int_equal(layer->kv_source, i < 15 ? i : is_full ? 14 : 13); /* D3, C8 */
    }
    assert_true(config.attention_scale == 1.0);
    assert_false(config.norm_adds_one);
    assert_true(config.has_v_norm);
    assert_true(model_config_named("gemma4-e4b", &config));
    assert_int_equal(config.layer[24].kv_source, 22);
    assert_int_equal(config.layer[29].kv_source, 23);
    assert_int_equal(config.layer[41].F, 10240);
    assert_true(model_config_named("gemma4-31b", &config));
    assert_int_equal(config.layer[5].G, 4);
    assert_true(config.layer[5].k_eq_v);
    assert_int_equal(config.layer[4].G, 16);
    assert_false(config.layer[4].k_eq_v);
}

static void test_facts_of_gemma3(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    for (int i = 0; i < config.L; i++) {
        assert_int_equal(config.layer[i].is_sliding, (i + 1) % 6 != 0);
        assert_int_equal(config.layer[i].rotary_pairs, 128);
        assert_int_equal(config.layer[i].kv_source, i);
    }
    assert_true(config.attention_scale == 0.0625);
    assert_true(config.norm_adds_one);
    assert_false(config.has_v_norm || config.has_layer_scalar);
    assert_true(config.final_softcap == 0.0);
    struct error err;
    assert_true(model_config_read("tests/golden/gemma3-tiny", &config, &err));
    assert_true(fabs(config.attention_scale - 1.0 / sqrt(24.0)) < 1e-15);
    assert_true(config.layer[7].is_sliding);
    assert_false(model_config_named("gemma5", &config));
    assert_null(model_config_name(-1));
}

/* The older spellings of Gemma 3's layer pattern and rotary settings. */
static void test_old_forms_of_gemma3(void **state)
{
    (void)state;
    struct model_config expected;
    struct error err;
    read_config("tests/golden/gemma3-tiny/config.json", &expected);
    static const char *const periods[] = {"sliding_window_pattern",
                                          "_sliding_window_pattern"};
    for (size_t i = 0; i < 2; i++) {
        json_t *root = changed(g3, NULL, "layer_types", NULL);
        json_object_del(root, "rope_parameters");
        json_object_set_new(root, periods[i], json_integer(6));
        json_object_set_new(root, "rope_theta", json_real(1e6));
        json_object_set_new(root, "rope_local_base_freq", json_real(1e4));
        json_object_set_new(root, "rope_scaling", json_null());
        json_object_set_new(root, "torch_dtype", json_string("float32"));
        json_object_del(root, "dtype");
        struct model_config config;
        assert_true(model_config_from_json(root, "c", &config, &err));
        assert_same_config(&config, &expected);
        json_decref(root);
    }
    /* 4B and up: linear scaling of full layers, text fields inside. */
    json_t *text = changed(g3, NULL, "rope_parameters", NULL);
    json_object_set_new(text, "rope_theta", json_real(1e6));
    json_object_set_new(text, "rope_scaling",
                        json_pack("{s:s, s:f}", "rope_type", "linear", "factor", 8.0));
    json_t *root = json_pack("{s:s, s:o, s:[i,i]}", "model_type", "gemma3",
                             "text_config", text, "eos_token_id", 1, 106);
    struct model_config config;
    assert_true(model_config_from_json(root, "c", &config, &err));
    assert_true(config.layer[5].rope_factor == 8.0);
    assert_true(config.layer[4].rope_factor == 1.0);
    assert_int_equal(config.n_eos, 2);
    assert_int_equal(config.eos_id[1], 106);
    json_decref(root);
}

static void test_unified_is_gemma4(void **state)
{
    (void)state;
    struct error err;
    json_t *root = changed("gemma4-e2b-tiny-nested/config.json", NULL, "model_type",
                           "\"gemma4_unified\"");
    struct model_config config;
    struct model_config expected;
    assert_true(model_config_from_json(root, "c", &config, &err));
    read_config("tests/golden/gemma4-e2b-tiny-nested/config.json", &expected);
    assert_same_config(&config, &expected);
    json_decref(root);
}

static void test_written_config_reads_back(void **state)
{
    (void)state;
    for (int i = 0; model_config_name(i) != NULL; i++) {
        struct model_config config;
        struct model_config again;
        struct error err;
        assert_true(model_config_named(model_config_name(i), &config));
        json_t *root = model_config_to_json(&config, DTYPE_BF16);
        char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        json_t *parsed = json_loads(text, 0, NULL);
        assert_true(model_config_from_json(parsed, "c", &again, &err));
        assert_same_config(&config, &again);
        free(text);
        json_decref(root);
        json_decref(parsed);
    }
    struct model_config tiny;
    struct model_config again;
    struct error err;
    read_config("tests/golden/gemma4-e2b-tiny/config.json", &tiny);
    json_t *root = model_config_to_json(&tiny, DTYPE_F32);
    assert_true(model_config_from_json(root, "c", &again, &err));
    assert_same_config(&tiny, &again);
    json_decref(root);
}

struct fault {
    const char *model, *inside, *key, *value;
    const char *message; /* part of it */
};

static void test_faults_are_named_by_key(void **state)
{
    (void)state;
    const struct fault faults[] = {
        {e2b, NULL, "model_type", "\"llama\"",
         "model_type is \"llama\", expected gemma3"},
        {e2b, NULL, "model_type", NULL, "model_type is missing"},
        {e2b, NULL, "enable_moe_block", "true", "mixture of experts is not supported"},
        {e2b, NULL, "hidden_size", NULL, "hidden_size is missing"},
        {e2b, NULL, "hidden_size", "\"64\"",
         "hidden_size is \"64\", expected an integer"},
        {e2b, NULL, "hidden_size", "0", "hidden_size is 0, expected an integer from 1"},
        {e2b, NULL, "hidden_size", "9999999999", "hidden_size is 9999999999"},
        {e2b, NULL, "num_hidden_layers", "300", "num_hidden_layers is 300"},
        {e2b, NULL, "num_hidden_layers", "9", "layer_types"},
        {e2b, NULL, "global_head_dim", NULL, "global_head_dim is missing"},
        {e2b, NULL, "global_head_dim", "31", "layer 4: head_dim 31 is odd"},
        {e2b, NULL, "num_kv_shared_layers", "10", "num_kv_shared_layers is 10"},
        {e2b, NULL, "num_kv_shared_layers", "6", "shares K and V, but no full layer"},
        {e2b, NULL, "num_attention_heads", "0", "num_attention_heads is 0"},
        {e2b, NULL, "num_key_value_heads", "3", "no multiple of num_key_value_heads 3"},
        {e2b, NULL, "rms_norm_eps", "-1", "rms_norm_eps is -1, expected a positive"},
        {e2b, NULL, "hidden_activation", "\"relu\"", "hidden_activation is \"relu\""},
        {e2b, NULL, "tie_word_embeddings", "false", "tie_word_embeddings is false"},
        {e2b, NULL, "attention_bias", "true", "attention_bias is true"},
        {e2b, NULL, "attention_dropout", "0.1", "attention_dropout is 0.1"},
        {e2b, NULL, "use_bidirectional_attention", "\"all\"",
         "use_bidirectional_attention"},
        {e2b, NULL, "layer_types", "[1]", "layer_types is [1], expected one entry per"},
        {e2b, NULL, "dtype", "\"int8\"", "dtype is \"int8\", expected bfloat16"},
        {e2b, NULL, "eos_token_id", "[]", "eos_token_id is [], expected one to eight"},
        {e2b, NULL, "eos_token_id", "256", "eos_token_id is 256, expected 0 to 255"},
        {e2b, NULL, "rope_parameters", NULL, "rope_parameters is missing"},
        {e2b, NULL, "rope_parameters", "{\"full_attention\": {}}",
         "rope_parameters.full_attention.rope_theta is missing"},
        {e2b, "rope_parameters", "sliding_attention", NULL, "layer 0: rope_theta is 0"},
        {e2b, "rope_parameters", "full_attention",
         "{\"rope_type\": \"yarn\", \"rope_theta\": 1}", "full_attention.rope_type is"},
        {e2b, "rope_parameters", "full_attention",
         "{\"rope_type\": \"proportional\", \"rope_theta\": 1, "
         "\"partial_rotary_factor\": 0.001}",
         "layer 4: partial_rotary_factor turns none of the 16 pairs"},
        {e2b, NULL, "per_layer_config", "{\"10\": {}}", "per_layer_config"},
        {e2b, NULL, "per_layer_config", "{\"4\": {\"head\": 1}}",
         "per_layer_config.N.head is 1"},
        {g3, NULL, "query_pre_attn_scalar", NULL, "query_pre_attn_scalar is missing"},
        {g3, NULL, "attn_logit_softcapping", "50.0", "attn_logit_softcapping is 50"},
        {g3, NULL, "sliding_window", "null", "sliding_window is missing"},
        {"gemma4-e2b-tiny-nested/config.json", "text_config", "vocab_size", NULL,
         "text_config.vocab_size is missing"},
        {"gemma4-e2b-tiny-nested/config.json", NULL, "text_config", "3",
         "text_config is 3, expected an object"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        const struct fault *fault = &faults[i];
        struct model_config config;
        struct error err = {.message = ""};
        json_t *root = changed(fault->model, fault->inside, fault->key, fault->value);
        assert_false(model_config_from_json(root, "c.json", &config, &err));
        if (strstr(err.message, fault->message) == NULL ||
            strncmp(err.message, "c.json: ", 8) != 0) {
            fail_msg("\"%s\" does not say \"%s\"", err.message, fault->message);
        }
        assert_int_equal(err.kind, ERROR_DATA);
        json_decref(root);
    }
}

static void test_soft_cap_is_a_number(void **state)
{
    (void)state;
    struct model_config config;
    struct error err;
    assert_true(model_config_named("gemma3-270m", &config));
    const double caps[] = {(double)INFINITY, (double)NAN, -1.0};
    for (size_t i = 0; i < ARRAY_LENGTH(caps); i++) {
        config.final_softcap = caps[i]; /* as a GGUF file may say */
        assert_false(model_config_check(&config, "m.gguf", &err));
        assert_non_null(strstr(err.message, "m.gguf: final_logit_softcapping is "));
    }
    config.final_softcap = 0.0;
    assert_true(model_config_check(&config, "m.gguf", &err));
}

static void test_moe_model_is_refused(void **state)
{
    (void)state;
    struct model_config config;
    struct error err;
    assert_false(model_config_read("tests/golden/gemma4-moe-tiny", &config, &err));
    assert_non_null(strstr(err.message, "mixture of experts is not supported"));
    assert_false(model_config_read("tests/golden/nowhere", &config, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void test_gguf_metadata(void **state)
{
    (void)state;
    struct model_config config;
    struct error err;
    assert_true(model_config_read("fuzz/seeds/fuzz_gguf/model", &config, &err));
    assert_int_equal(config.family, MODEL_GEMMA3);
    assert_int_equal(config.D, 32);
    assert_int_equal(config.V, 4);
    assert_int_equal(config.L, 6);
    assert_true(config.rms_eps == 1e-6);
    assert_true(config.attention_scale == 0.25);
    assert_false(config.layer[5].is_sliding);
    assert_true(config.layer[5].rope_theta == 1e6);
    assert_true(config.layer[4].rope_theta == 1e4); /* not in such files */
    assert_false(model_config_read("fuzz/seeds/fuzz_gguf/types", &config, &err));
    assert_non_null(strstr(err.message, "gemma3.embedding_length is missing"));
    assert_false(model_config_read("fuzz/seeds/fuzz_gguf/empty", &config, &err));
    assert_non_null(strstr(err.message, "general.architecture is missing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_of_one_model_agree),
        cmocka_unit_test(test_facts_of_e2b),
        cmocka_unit_test(test_facts_of_gemma3),
        cmocka_unit_test(test_old_forms_of_gemma3),
        cmocka_unit_test(test_unified_is_gemma4),
        cmocka_unit_test(test_written_config_reads_back),
        cmocka_unit_test(test_faults_are_named_by_key),
        cmocka_unit_test(test_soft_cap_is_a_number),
        cmocka_unit_test(test_moe_model_is_refused),
        cmocka_unit_test(test_gguf_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
