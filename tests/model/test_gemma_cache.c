/*
 * Slots of the caches, and the arguments and outputs of the graph. What it computes:
 * tests/train/test_decoding.c.
 */
#include "model/gemma_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "graph/verify.h"
#include "model/params.h"

static struct model_config read_config(const char *folder)
{
    struct model_config config;
    struct error err;
    if (!model_config_read(folder, &config, &err)) {
        fail_msg("%s", err.message);
    }
    return config;
}

/* Full layers: the context. Sliding ones: a window for the first token of a pass, and
 * room for the pass; never more than the context. */
static void rings_are_just_long_enough(void **state)
{
    (void)state;
    const struct model_config config = read_config("tests/golden/gemma3-tiny");
    assert_int_equal(config.window, 8);
    int64_t slots[GEMMA_CACHE_KINDS];
    gemma_cache_slots(&config, 1000, 1, slots);
    assert_int_equal(slots[GEMMA_CACHE_FULL], 1008);
    assert_int_equal(slots[GEMMA_CACHE_SLIDING], 16);
    gemma_cache_slots(&config, 1000, 128, slots);
    assert_int_equal(slots[GEMMA_CACHE_SLIDING], 144); /* 8 + 127, in sixteens */
    /* One more than a multiple of sixteen needs the next one. */
    gemma_cache_slots(&config, 1000, 10, slots);
    assert_int_equal(slots[GEMMA_CACHE_SLIDING], 32); /* 8 + 9 */
    gemma_cache_slots(&config, 1000, 9, slots);
    assert_int_equal(slots[GEMMA_CACHE_SLIDING], 16); /* 8 + 8 */
    gemma_cache_slots(&config, 30, 16, slots);
    assert_int_equal(slots[GEMMA_CACHE_FULL], 32);
    assert_int_equal(slots[GEMMA_CACHE_SLIDING], 32);
    struct model_config sliding_only = config;
    for (int i = 0; i < sliding_only.L; i++) {
        sliding_only.layer[i].is_sliding = true;
    }
    gemma_cache_slots(&sliding_only, 1000, 16, slots);
    assert_int_equal(slots[GEMMA_CACHE_FULL], 0);
}

/* Well formed; each cache is updated in its own memory, layers that share have none. */
static void caches_are_donated(void **state)
{
    (void)state;
    static const char *const folders[] = {"tests/golden/gemma3-tiny",
                                          "tests/golden/gemma4-e2b-tiny",
                                          "tests/golden/gemma4-31b-tiny"};
    for (size_t f = 0; f < ARRAY_LENGTH(folders); f++) {
        const struct model_config config = read_config(folders[f]);
        struct params *params = params_create(&config);
        struct gemma_cache_shape shape = {.B = 2, .T = 16};
        gemma_cache_slots(&config, 100, 16, shape.slots);
        const struct mesh mesh = mesh_single();
        struct graph *graph = gemma_cache_build(&mesh, &config, params, NULL, &shape);
        struct error err;
        if (!verify_graph(graph, false, &err)) {
            fail_msg("%s", err.message);
        }
        int n_own = 0;
        for (int i = 0; i < config.L; i++) {
            n_own += model_config_owns_kv(&config, i);
        }
        assert_int_equal(graph->n_outputs, 1 + 2 * n_own);
        int64_t n_elements = 0;
        for (int i = 1; i < graph->n_outputs; i++) {
            assert_non_null(graph->outputs[i].donor);
            assert_string_equal(graph->outputs[i].donor->node->name,
                                graph->outputs[i].name);
            n_elements += type_elements(&graph->outputs[i].value->type);
        }
        assert_int_equal(n_elements, gemma_cache_elements(&config, &shape));
        const struct shape *logits = &graph->outputs[0].value->type.shape;
        assert_int_equal(logits->rank, 2); /* of one token a row, never of all */
        assert_int_equal(logits->dim[0], 2);
        assert_int_equal(logits->dim[1], config.V);
        graph_destroy(graph);
        params_destroy(params);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_are_just_long_enough),
        cmocka_unit_test(caches_are_donated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
