/*
 * Operations of Gemma 3 270M by hand: D 640, L 18, F 2048, H 4, G 1, K 256, V 262144, so
 * 5,570,560 weights of matrices a layer, 100,270,080 in all, and a head of 167,772,160.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/mem.h"
#include "data/batch.h"
#include "data/records.h"
#include "model/config.h"
#include "model/params.h"
#include "train/flops.h"

static void assert_near(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b)) {
        fail_msg("%.17g is not %.17g", a, b);
    }
}

/* One row of 512 tokens: 131,328 pairs in each of the 18 layers, at 4 * 1024 a pair. */
static void a_row_of_the_270m(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    struct params *params = params_create(&config);
    bool *all = mem_alloc_array((size_t)params->n, sizeof(bool));
    for (int i = 0; i < params->n; i++) {
        all[i] = true;
    }
    const struct flops_counts counts = flops_row(512, config.window);
    const double products = 2.0 * 512.0 * (100270080.0 + 167772160.0);
    const double pairs = 18.0 * 4.0 * 1024.0 * 131328.0;
    assert_near(flops_forward(&config, params, &counts), products + pairs);
    /* Six a weight and token, and attention three times. */
    assert_near(flops_training(&config, params, all, &counts),
                3.0 * (products + pairs));
    mem_free(all);
    params_destroy(params);
}

/* Only the last layer's gate: no gradient goes below that layer, one weight has one. */
static void frozen_tensors_cost_less(void **state)
{
    (void)state;
    struct model_config config;
    assert_true(model_config_named("gemma3-270m", &config));
    struct params *params = params_create(&config);
    bool *some = mem_alloc_array((size_t)params->n, sizeof(bool));
    some[params_index(params, PARAM_GATE, 17)] = true;
    const struct flops_counts counts = flops_row(100, config.window);
    const double forward = flops_forward(&config, params, &counts);
    const double head = 2.0 * 100.0 * 167772160.0;
    const double layer = 2.0 * 100.0 * 5570560.0;
    const double gate = 2.0 * 100.0 * 640.0 * 2048.0;
    const double pairs = 4.0 * 1024.0 * 5050.0;
    assert_near(flops_training(&config, params, some, &counts),
                forward + head + layer + gate + 2.0 * pairs);
    mem_free(some);
    params_destroy(params);
}

/* Tokens of a batch see their own document, in sliding layers its last window keys. */
static void pairs_of_a_batch(void **state)
{
    (void)state;
    static const int32_t ids[] = {2, 5, 6, 7};
    static const float weight[] = {0, 1, 1, 1};
    static const int32_t from[] = {0};
    const struct example example = {.ids = ids,
                                    .loss_weight = weight,
                                    .document_from = from,
                                    .n = 4,
                                    .n_documents = 1,
                                    .n_targets = 3};
    struct batch *batch = batch_create(2, 10, 8);
    batch_clear(batch, 0);
    batch_add(batch, 0, &example);
    batch_add(batch, 0, &example);
    struct flops_counts counts = {0};
    flops_count(batch, 3, &counts);
    assert_near(counts.tokens, 8.0);
    assert_near(counts.targets, 6.0);
    assert_near(counts.pairs, 2.0 * (1 + 2 + 3 + 4));
    assert_near(counts.pairs_sliding, 2.0 * (1 + 2 + 3 + 3));
    batch_destroy(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_the_270m),
        cmocka_unit_test(frozen_tensors_cost_less),
        cmocka_unit_test(pairs_of_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
