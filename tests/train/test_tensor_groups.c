/*
 * Which tensor is in which group, and the rates that the schedule leaves to each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/config.h"
#include "train/settings.h"
#include "train/tensor_groups.h"

/* Groups of gemma3-270m with all but the tensors of layer 0 trained. */
static void make(struct tensor_groups *groups, struct settings *settings,
                 const struct params *params)
{
    bool *is_trainable = mem_alloc_array((size_t)params->n, sizeof(bool));
    for (int i = 0; i < params->n; i++) {
        is_trainable[i] = params->info[i].layer != 0;
    }
    tensor_groups_init(groups, settings, params, is_trainable);
    mem_free(is_trainable);
}

static struct params *params_of_270m(void)
{
    struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    return params_create(&config);
}

static void the_first_pattern_counts(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    static const struct param_group patterns[] = {
        {"*norm*", 1e-5, 0.0},
        {"*layers.0.*", 1e-3, (double)NAN}, /* not trained */
        {"*q_proj*", (double)NAN, 0.5},
    };
    struct params *params = params_of_270m();
    struct settings settings;
    settings_init(&settings);
    settings.train.optimizer.lr = 2e-5;
    settings.train.optimizer.weight_decay = 0.01;
    settings.train.param_groups = (struct param_group_list){patterns, 3};
    struct tensor_groups groups;
    make(&groups, &settings, params);
    assert_int_equal(groups.n, 4);
    assert_int_equal(groups.group[params_index(params, PARAM_Q_NORM, 3)], 0);
    assert_int_equal(groups.group[params_index(params, PARAM_INPUT_NORM, 0)], 0);
    assert_int_equal(groups.group[params_index(params, PARAM_Q, 0)], 1);
    assert_int_equal(groups.group[params_index(params, PARAM_Q, 3)], 2);
    assert_int_equal(groups.group[params_index(params, PARAM_EMBED, -1)], 3);
    assert_string_equal(groups.name[0], "*norm*");
    assert_string_equal(groups.name[3], "others");
    assert_int_equal(groups.n_tensors[1], 0);
    assert_int_equal(groups.n_tensors[2], 17);

    /* Half way down the schedule: every rate is half of its own. */
    struct step_group rates[4];
    tensor_groups_rates(&groups, 1e-5, rates);
    assert_true(fabs(rates[0].lr - 0.5e-5) < 1e-20);
    assert_true(fabs(rates[1].lr - 0.5e-3) < 1e-18);
    assert_true(rates[2].lr == 1e-5 && rates[3].lr == 1e-5);
    assert_true(rates[0].weight_decay == 0.0 && rates[1].weight_decay == 0.01);
    assert_true(rates[2].weight_decay == 0.5 && rates[3].weight_decay == 0.01);
    tensor_groups_deinit(&groups);
    settings_deinit(&settings);
    params_destroy(params);
}

/* A rate of 0 for all but a group with one of its own: there is nothing to scale by. */
static void a_rate_of_its_own_stays_where_all_others_rest(void **state)
{
    (void)state;
    static const struct param_group patterns[] = {{"*q_proj*", 1e-3, (double)NAN}};
    struct params *params = params_of_270m();
    struct settings settings;
    settings_init(&settings);
    settings.train.optimizer.lr = 0.0;
    settings.train.param_groups = (struct param_group_list){patterns, 1};
    struct tensor_groups groups;
    make(&groups, &settings, params);
    struct step_group rates[2];
    tensor_groups_rates(&groups, 0.0, rates);
    assert_true(rates[0].lr == 1e-3 && rates[1].lr == 0.0);
    tensor_groups_deinit(&groups);
    settings_deinit(&settings);
    params_destroy(params);
}

static void without_patterns_kinds_or_one(void **state)
{
    (void)state;
    struct params *params = params_of_270m();
    struct settings settings;
    settings_init(&settings);
    struct tensor_groups groups;
    make(&groups, &settings, params);
    assert_int_equal(groups.n, 1);
    tensor_groups_deinit(&groups);
    settings.train.norms_every = 5;
    make(&groups, &settings, params);
    const int q = groups.group[params_index(params, PARAM_Q, 3)];
    assert_string_equal(groups.name[q], "attention");
    assert_int_equal(groups.group[params_index(params, PARAM_O, 5)], q);
    assert_int_equal(groups.n_tensors[q], 17 * 4);
    const int up = groups.group[params_index(params, PARAM_UP, 3)];
    assert_string_equal(groups.name[up], "mlp");
    tensor_groups_deinit(&groups);
    settings_deinit(&settings);
    params_destroy(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pattern_counts),
        cmocka_unit_test(a_rate_of_its_own_stays_where_all_others_rest),
        cmocka_unit_test(without_patterns_kinds_or_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
