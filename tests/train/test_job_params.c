/*
 * What a run decides about its tensors: with adapters only these are trained, frozen
 * weights keep the number format of their file and are read there, and the result is an
 * adapter folder; without, it is a model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/job_params.h"
#include "train/trainer_job.h"

static const char *const tiny = "tests/golden/gemma4-e2b-tiny";         /* f32 */
static const char *const adapter = "tests/golden/gemma4-e2b-tiny-lora"; /* rank 4 */
static const char *const demo = "examples/demo/model";                  /* bf16 */

static struct settings settings;
static struct job job;
static struct error err;

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    settings_init(&settings);
    settings.model = tiny;
    job = (struct job){.settings = &settings};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    job_params_close(&job);
    model_source_close(&job.source);
    settings_deinit(&settings);
    return 0;
}

/* Decides again, with the settings as they are now. */
static bool decide(void)
{
    job_params_close(&job);
    model_source_close(&job.source);
    job = (struct job){.settings = &settings};
    CHECK(model_source_open(&job.source, settings.model, settings.init == INIT_WEIGHTS,
                            false, &err));
    return job_params_open(&job, &err);
}

static enum dtype stored(enum param_role role, int layer)
{
    return job.stored[params_index(job.source.params, role, layer)];
}

static void without_lora_all_is_trained(void **state)
{
    (void)state;
    CHECK(decide());
    const struct params *params = job.source.params;
    assert_false(job_params_has_lora(&job));
    assert_int_equal(params->n, params->n_model);
    assert_int_equal(job.n_trained, params->n_elements - 10); /* but layer scalars */
    assert_string_equal(job_params_result_name(&job), "model");
    assert_int_equal(job_params_result_bytes(&job), params->n_elements * 4);
    /* Four numbers for each trained one; layer scalars are read in the file. */
    assert_int_equal(job_params_state_bytes(&job), job.n_trained * 16);
    assert_int_equal(job_params_mapped_bytes(&job), 10 * sizeof(float));
}

static void with_lora_adapters_are_trained(void **state)
{
    (void)state;
    settings.lora.rank = 4;
    CHECK(decide());
    const struct params *params = job.source.params;
    assert_true(job_params_has_lora(&job));
    for (int i = 0; i < params->n; i++) {
        assert_int_equal(job.is_trainable[i], i >= params->n_model);
    }
    assert_int_equal(job.n_trained, params->n_adapter_elements);
    assert_true(job.has_ple_rows);
    assert_string_equal(job_params_result_name(&job), "adapter");
    assert_int_equal(job_params_result_bytes(&job), params->n_adapter_elements * 4);
    /* All that is frozen is read in the file, the per-layer table by rows. */
    assert_int_equal(job_params_state_bytes(&job), params->n_adapter_elements * 16);
    const int table = params_index(params, PARAM_PLE_TABLE, -1);
    assert_int_equal(job_params_mapped_bytes(&job),
                     (params->n_elements - params->info[table].n_elements) * 4);
    /* train.freeze counts for adapters too. */
    const char *const pattern = "*lora_A*";
    settings.train.freeze = (struct string_list){.items = &pattern, .n = 1};
    const int64_t n_all = job.n_trained;
    CHECK(decide());
    assert_true(0 < job.n_trained && job.n_trained < n_all);
    for (int i = 0; i < job.source.params->n; i++) {
        assert_int_equal(job.is_trainable[i],
                         job.source.params->info[i].role == PARAM_LORA_B);
    }
    const char *const everything = "*lora*";
    settings.train.freeze.items = &everything;
    assert_false(decide());
    assert_non_null(strstr(err.message, "nothing to train"));
    assert_int_equal(error_exit_code(err.kind), 2);
}

/* lora.base: as in the file, or as asked; products in bf16 want their matrices so. */
static void frozen_weights_have_the_wanted_format(void **state)
{
    (void)state;
    settings.lora.rank = 2;
    settings.model = demo;
    CHECK(decide());
    assert_int_equal(stored(PARAM_Q, 0), DTYPE_BF16);
    assert_int_equal(stored(PARAM_INPUT_NORM, 0), DTYPE_BF16);
    assert_int_equal(job.stored[job.source.params->n - 1], DTYPE_F32);
    const size_t mapped = job_params_mapped_bytes(&job);
    assert_true(mapped > 0);
    settings.lora.base = LORA_BASE_F32;
    CHECK(decide());
    assert_int_equal(stored(PARAM_Q, 0), DTYPE_F32);
    assert_int_equal(job_params_mapped_bytes(&job), 0);
    assert_true(job_params_state_bytes(&job) > 2 * mapped);

    settings.model = tiny;
    settings.lora.base = LORA_BASE_BF16;
    CHECK(decide());
    assert_int_equal(stored(PARAM_DOWN, 3), DTYPE_BF16);
    assert_int_equal(stored(PARAM_FINAL_NORM, -1), DTYPE_F32);
    settings.lora.base = LORA_BASE_FILE;
    CHECK(decide());
    assert_int_equal(stored(PARAM_DOWN, 3), DTYPE_F32);
    settings.precision = PRECISION_BF16_COMPUTE;
    CHECK(decide());
    assert_int_equal(stored(PARAM_DOWN, 3), DTYPE_BF16);
    assert_int_equal(stored(PARAM_FINAL_NORM, -1), DTYPE_F32);
    assert_int_equal(job.stored[job.source.params->n - 1], DTYPE_F32);
    settings.precision = PRECISION_BF16;
    CHECK(decide());
    assert_int_equal(stored(PARAM_FINAL_NORM, -1), DTYPE_BF16);
    assert_int_equal(job.stored[job.source.params->n - 1], DTYPE_BF16);
}

/* Layers of a role that are partly frozen are one stack, of one format. */
static void a_role_has_one_format(void **state)
{
    (void)state;
    settings.model = demo;
    const char *const pattern = "*layers.0.*";
    settings.train.freeze = (struct string_list){.items = &pattern, .n = 1};
    CHECK(decide());
    for (int i = 0; i < 6; i++) {
        assert_int_equal(stored(PARAM_Q, i), DTYPE_F32);
    }
    /* A role that is frozen as a whole is as in the file. */
    const char *const whole = "*q_proj*";
    settings.train.freeze.items = &whole;
    CHECK(decide());
    assert_int_equal(stored(PARAM_Q, 2), DTYPE_BF16);
    assert_int_equal(stored(PARAM_O, 2), DTYPE_F32);
}

/* First values: of a new adapter B is zero, of one that is there they are its own. */
static void values_come_from_the_right_place(void **state)
{
    (void)state;
    settings.lora.rank = 4;
    CHECK(decide());
    struct step_source source = job_params_source(&job);
    float row[64];
    const int q = params_index(job.source.params, PARAM_Q, 0);
    const int a = params_adapter(job.source.params, PARAM_LORA_A, q);
    const int b = params_adapter(job.source.params, PARAM_LORA_B, q);
    CHECK(source.read(source.context, b, 0, 16, row, &err));
    assert_true(row[0] == 0.0f && row[63] == 0.0f);
    CHECK(source.read(source.context, a, 0, 1, row, &err));
    assert_true(row[0] != 0.0f && fabsf(row[0]) <= 0.125f);
    enum dtype dtype;
    assert_null(source.view(source.context, a, &dtype));
    assert_non_null(source.view(source.context, q, &dtype));

    settings.lora.adapter = adapter;
    CHECK(decide());
    assert_int_equal(job.lora.rank, 4);
    assert_true(job.lora.alpha == 8.0 && job.source.params->lora_scale == 2.0);
    source = job_params_source(&job);
    float expected[64];
    CHECK(source.read(source.context, b, 0, 16, row, &err));
    CHECK(lora_read(job.adapter, b, 0, 16, expected, &err));
    assert_memory_equal(row, expected, sizeof(row));
    assert_true(row[0] != 0.0f);

    /* Random weights lie nowhere. */
    settings.lora.adapter = NULL;
    settings.init = INIT_RANDOM;
    CHECK(decide());
    source = job_params_source(&job);
    assert_null(source.view(source.context, q, &dtype));
    CHECK(source.read(source.context, q, 0, 1, row, &err));
    assert_false(job.has_ple_rows);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    settings.lora.adapter = adapter;
    settings.lora.rank = 8;
    assert_false(decide());
    assert_non_null(strstr(err.message, "lora.rank is 8, but the adapter"));
    settings.lora.rank = 0;
    settings.lora.alpha = 4.0;
    assert_false(decide());
    assert_non_null(strstr(err.message, "lora.alpha is 4, but the adapter"));
    settings.lora.alpha = 8.0;
    settings.lora.dropout = 0.5;
    CHECK(decide());
    assert_true(job.lora.dropout == 0.5);
    settings.lora.adapter = tiny;
    assert_false(decide());
    assert_non_null(strstr(err.message, "no adapter_config.json"));
    const char *const target = "q_prog";
    settings.lora.adapter = NULL;
    settings.lora.rank = 8;
    settings.lora.targets = (struct string_list){.items = &target, .n = 1};
    assert_false(decide());
    assert_non_null(strstr(err.message, "no weight matches \"q_prog\""));
}

/* The result of a step that has not trained: a new adapter that changes nothing, and
 * the model as it was. */
static void the_result_is_what_was_trained(void **state)
{
    (void)state;
    char base[] = "/tmp/test_job_params-XXXXXX";
    assert_non_null(mkdtemp(base));
    settings.lora.rank = 2;
    CHECK(decide());
    const struct mesh mesh = mesh_single();
    const struct backend_options backend = {.n_threads = 1, .isa = BACKEND_ISA_BEST};
    struct engine *engine = backend_create_cpu(&mesh, 0, 1, &backend, &err);
    assert_non_null(engine);
    for (int lora = 1; lora >= 0; lora--) {
        settings.lora.rank = 2 * lora;
        CHECK(decide());
        const struct step_options options = {.shape = {.config = &job.source.config,
                                                       .params = job.source.params,
                                                       .is_trainable = job.is_trainable,
                                                       .stored = job.stored,
                                                       .has_ple_rows = job.has_ple_rows,
                                                       .B = 1,
                                                       .T = 16,
                                                       .C = 16,
                                                       .compute = DTYPE_F32},
                                             .evaluates = true};
        const struct step_source source = job_params_source(&job);
        struct step *step = step_create(engine, &options, &source, &err);
        CHECK(step != NULL && step_load(step, &err));
        char *path = file_join(base, job_params_result_name(&job));
        CHECK(job_params_write(&job, step, path, &err));
        step_destroy(step);
        struct model_source again = {0};
        CHECK(model_source_open(&again, lora ? tiny : path, true, false, &err));
        if (lora) {
            CHECK(model_source_open_adapter(&again, path, &err));
            assert_string_equal(lora_base_name(again.adapter), tiny);
        }
        for (int i = 0; i < again.params->n; i++) {
            const struct param_info *info = &again.params->info[i];
            float *a = mem_alloc_array(2 * (size_t)info->n_elements, sizeof(float));
            float *b = a + info->n_elements;
            CHECK(model_source_read(&again, i, 0, info->dim[0], a, &err));
            CHECK(weights_read(job.source.weights, i, 0, info->dim[0], b, &err));
            assert_memory_equal(a, b, (size_t)info->n_elements * sizeof(float));
            mem_free(a);
        }
        model_source_close(&again);
        mem_free(path);
    }
    backend_destroy(engine);
    CHECK(file_remove_tree(base, &err));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_lora_all_is_trained),
        TEST(with_lora_adapters_are_trained),
        TEST(frozen_weights_have_the_wanted_format),
        TEST(a_role_has_one_format),
        TEST(values_come_from_the_right_place),
        TEST(contradictions_are_refused),
        TEST(the_result_is_what_was_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
