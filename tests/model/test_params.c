/*
 * Parameter counts of the published sizes, names and shapes of the golden models.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "model/config.h"
#include "model/params.h"

static void test_counts_of_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t n_elements, table_elements; /* of the per-layer embeddings */
        int n;
    } known[] = {
        {"gemma3-270m", 268098176, 0, 236},
        {"gemma3-1b", 999885952, 0, 340},
        {"gemma4-e2b", 4628569379, 2348810240, 540},
        {"gemma4-e4b", 7463013418, 2818572288, 665},
        {"gemma4-12b", 11907350320, 0, 666},
        {"gemma4-31b", 30697345340, 0, 832},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        struct model_config config;
        assert_true(model_config_named(known[i].name, &config));
        struct params *params = params_create(&config);
        assert_true(params->n_elements == known[i].n_elements);
        assert_int_equal(params->n, known[i].n);
        const int table = params_index(params, PARAM_PLE_TABLE, -1);
        assert_int_equal(table >= 0, known[i].table_elements > 0);
        if (table >= 0) {
            assert_true(params->info[table].n_elements == known[i].table_elements);
        }
        params_destroy(params);
    }
    params_destroy(NULL);
}

static void test_shapes_of_e2b(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma4-e2b", &config));
    struct params *params = params_create(&config);
    static const struct {
        const char *name;
        int64_t rows, columns;
    } known[] = {
        {"model.embed_tokens.weight", 262144, 1536},
        {"model.embed_tokens_per_layer.weight", 262144, 8960},
        {"model.per_layer_model_projection.weight", 8960, 1536},
        {"model.per_layer_projection_norm.weight", 256, 1},
        {"model.layers.0.self_attn.q_proj.weight", 2048, 1536},
        {"model.layers.34.self_attn.q_proj.weight", 4096, 1536},
        {"model.layers.14.self_attn.v_proj.weight", 512, 1536},
        {"model.layers.34.self_attn.o_proj.weight", 1536, 4096},
        {"model.layers.14.self_attn.k_norm.weight", 512, 1},
        {"model.layers.15.mlp.gate_proj.weight", 12288, 1536},
        {"model.layers.15.mlp.down_proj.weight", 1536, 12288},
        {"model.layers.3.per_layer_input_gate.weight", 256, 1536},
        {"model.layers.3.per_layer_projection.weight", 1536, 256},
        {"model.layers.3.layer_scalar", 1, 1},
        {"model.norm.weight", 1536, 1},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        const int index = params_find(params, known[i].name);
        assert_true(index >= 0);
        const struct param_info *info = &params->info[index];
        assert_int_equal(info->dim[0], known[i].rows);
        assert_int_equal(info->dim[1], known[i].columns);
        assert_int_equal(info->rank, known[i].columns == 1 ? 1 : 2);
        assert_int_equal(params_index(params, info->role, info->layer), index);
        assert_int_equal(info->layer >= 0, params_role_is_layer(info->role));
        assert_non_null(strstr(info->name, params_role_name(info->role)));
    }
    params_destroy(params);
}

/* D3, C8: layers that share K and V own no tensors for them. */
static void test_who_owns_k_and_v(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma4-e2b", &config));
    struct params *params = params_create(&config);
    for (int i = 0; i < config.L; i++) {
        assert_int_equal(params_index(params, PARAM_K, i) >= 0, i < 15);
        assert_int_equal(params_index(params, PARAM_V, i) >= 0, i < 15);
        assert_int_equal(params_index(params, PARAM_K_NORM, i) >= 0, i < 15);
        assert_true(params_index(params, PARAM_Q_NORM, i) >= 0);
    }
    params_destroy(params);
    assert_true(model_config_named("gemma4-31b", &config));
    params = params_create(&config);
    for (int i = 0; i < config.L; i++) {
        assert_int_equal(params_index(params, PARAM_V, i) >= 0, (i + 1) % 6 != 0);
        assert_true(params_index(params, PARAM_K, i) >= 0);
    }
    assert_int_equal(params_index(params, PARAM_PLE_GATE, 0), -1);
    params_destroy(params);
}

static void test_flags(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma4-e4b", &config));
    struct params *params = params_create(&config);
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        assert_int_equal(info->is_norm, strstr(info->name, "norm") != NULL);
        assert_int_equal(info->is_trainable_by_default,
                         info->role != PARAM_LAYER_SCALAR);
        assert_int_equal(params_find(params, info->name), i); /* names are unique */
    }
    assert_int_equal(params_find(params, "model.layers.3.layer_scalar.weight"), -1);
    params_destroy(params);
}

/* Rows behind the model's own: A [r, in] and B [out, r] of each weight, in order. */
static void test_adapters_are_further_rows(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    struct params *params = params_create(&config);
    const int n_model = params->n;
    const int64_t n_elements = params->n_elements;
    assert_int_equal(params->n_model, n_model);
    assert_null(params->adapted);
    bool has_adapter[300] = {false};
    const int q = params_index(params, PARAM_Q, 2);
    const int down = params_index(params, PARAM_DOWN, 0);
    assert_true(n_model <= 300 && q > down);
    has_adapter[q] = true;
    has_adapter[down] = true;
    assert_int_equal(params_adapter(params, PARAM_LORA_A, q), -1);
    params_add_adapters(params, has_adapter, 8, 0.5);
    assert_int_equal(params->n, n_model + 4);
    assert_int_equal(params->n_model, n_model);
    assert_true(params->n_elements == n_elements);
    assert_true(params->lora_scale == 0.5);
    const int a = params_adapter(params, PARAM_LORA_A, q);
    const int b = params_adapter(params, PARAM_LORA_B, q);
    assert_int_equal(a, n_model + 2);
    assert_int_equal(b, n_model + 3);
    assert_string_equal(params->info[a].name,
                        "model.layers.2.self_attn.q_proj.lora_A.weight");
    assert_string_equal(params->info[b].name,
                        "model.layers.2.self_attn.q_proj.lora_B.weight");
    assert_int_equal(params->info[a].dim[0], 8);
    assert_true(params->info[a].dim[1] == params->info[q].dim[1]);
    assert_true(params->info[b].dim[0] == params->info[q].dim[0]);
    assert_int_equal(params->info[b].dim[1], 8);
    assert_int_equal(params->info[a].base, q);
    assert_int_equal(params->info[q].base, -1);
    assert_int_equal(params->info[a].layer, 2);
    assert_true(params->info[a].is_trainable_by_default);
    assert_int_equal(params_find(params, params->info[b].name), b);
    /* Roles of the model are looked for among its own tensors. */
    assert_int_equal(params_index(params, PARAM_Q, 2), q);
    assert_int_equal(params->adapted[0], 1u << PARAM_DOWN);
    assert_int_equal(params->adapted[1], 0);
    assert_int_equal(params->adapted[2], 1u << PARAM_Q);
    assert_true(params->n_adapter_elements == params->info[a].n_elements +
                                                  params->info[b].n_elements +
                                                  params->info[n_model].n_elements +
                                                  params->info[n_model + 1].n_elements);
    params_destroy(params);
}

/* One dtype for all layers of a role. */
static void test_dtypes_of_a_role_are_one(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    struct params *params = params_create(&config);
    enum dtype stored[300];
    assert_true(params->n <= 300);
    for (int i = 0; i < params->n; i++) {
        stored[i] = params->info[i].rank == 2 ? DTYPE_BF16 : DTYPE_F32;
    }
    stored[params_index(params, PARAM_Q, 7)] = DTYPE_F32;
    stored[params_index(params, PARAM_INPUT_NORM, 0)] = DTYPE_BF16;
    params_unify_dtypes(params, stored);
    for (int i = 0; i < params->n; i++) {
        const bool is_bf16 =
            params->info[i].rank == 2 && params->info[i].role != PARAM_Q;
        assert_int_equal(stored[i], is_bf16 ? DTYPE_BF16 : DTYPE_F32);
    }
    params_destroy(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_of_published_sizes),
        cmocka_unit_test(test_shapes_of_e2b),
        cmocka_unit_test(test_who_owns_k_and_v),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_adapters_are_further_rows),
        cmocka_unit_test(test_dtypes_of_a_role_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
