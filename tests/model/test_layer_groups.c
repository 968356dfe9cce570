/*
 * The repeating pattern of each published model, and of lists without one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "model/layer_groups.h"

/* Groups as text: "3x(5 1) 2x(1)" is three periods of a run of 5 and a run of 1. */
static void assert_pattern(const struct model_config *config, const char *expected)
{
    static struct layer_group groups[MODEL_MAX_LAYERS];
    char text[400] = "";
    size_t used = 0;
    int next = 0;
    const int n = layer_groups_find(config, NULL, groups);
    for (int g = 0; g < n; g++) {
        assert_int_equal(groups[g].first, next);
        next += groups[g].count * groups[g].period;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%dx(",
                                 g == 0 ? "" : " ", groups[g].count);
        int offset = 0;
        for (int r = 0; r < groups[g].n_runs; r++) {
            assert_int_equal(groups[g].runs[r].offset, offset);
            offset += groups[g].runs[r].count;
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d",
                                     r == 0 ? "" : " ", groups[g].runs[r].count);
        }
        used += (size_t)snprintf(text + used, sizeof(text) - used, ")");
        assert_int_equal(offset, groups[g].period);
        for (int i = 0; i < groups[g].period * (groups[g].count - 1); i++) {
            assert_true(layer_groups_equal(config, NULL, groups[g].first + i,
                                           groups[g].first + i + groups[g].period));
        }
    }
    assert_int_equal(next, config->L);
    assert_string_equal(text, expected);
}

static void published_models(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *pattern;
    } models[] = {
        {"gemma3-270m", "3x(5 1)"},        {"gemma3-1b", "4x(5 1) 1x(2)"},
        {"gemma4-e2b", "3x(4 1) 4x(4 1)"}, {"gemma4-e4b", "4x(5 1) 3x(5 1)"},
        {"gemma4-12b", "8x(5 1)"},         {"gemma4-31b", "10x(5 1)"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        static struct model_config config;
        assert_true(model_config_named(models[i].name, &config));
        assert_pattern(&config, models[i].pattern);
    }
}

/* Layers with adapters on other weights are different layers. */
static void adapters_make_layers_different(void **state)
{
    (void)state;
    static struct model_config config;
    static struct layer_group groups[MODEL_MAX_LAYERS];
    assert_true(model_config_named("gemma3-270m", &config));
    struct params *params = params_create(&config);
    bool has_adapter[300] = {false};
    assert_true(params->n <= 300);
    /* On q of all layers, and on v of the first three. */
    for (int i = 0; i < config.L; i++) {
        has_adapter[params_index(params, PARAM_Q, i)] = true;
        has_adapter[params_index(params, PARAM_V, i)] = i < 3;
    }
    assert_int_equal(layer_groups_find(&config, params, groups), 1);
    params_add_adapters(params, has_adapter, 4, 2.0);
    assert_false(layer_groups_equal(&config, params, 2, 3));
    assert_true(layer_groups_equal(&config, params, 1, 2));
    assert_true(layer_groups_equal(&config, params, 3, 4));
    assert_true(layer_groups_equal(&config, NULL, 2, 3));
    const int n = layer_groups_find(&config, params, groups);
    assert_true(n > 1);
    int n_layers = 0;
    for (int g = 0; g < n; g++) {
        n_layers += groups[g].count * groups[g].period;
    }
    assert_int_equal(n_layers, config.L);
    params_destroy(params);
}

static void lists_without_a_pattern(void **state)
{
    (void)state;
    static struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    for (int i = 0; i < config.L; i++) {
        config.layer[i].F = 100 + i; /* all different */
    }
    assert_pattern(&config, "1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1) "
                            "1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1) 1x(1)");
    for (int i = 0; i < config.L; i++) {
        config.layer[i] = config.layer[0];
        config.layer[i].kv_source = i;
    }
    assert_pattern(&config, "1x(18)");
    config.L = 1;
    assert_pattern(&config, "1x(1)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_models),
        cmocka_unit_test(adapters_make_layers_different),
        cmocka_unit_test(lists_without_a_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
