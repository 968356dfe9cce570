/*
 * A model folder opens whole or not at all; what is missing is named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/tokenizer.h"
#include "train/model_source.h"

static void the_published_layout_gives_the_same_weights(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    struct model_source plain = {0};
    struct model_source nested = {0};
    struct error err;
    if (!model_source_open(&plain, "tests/golden/gemma4-e2b-tiny", true, false, &err) ||
        !model_source_open(&nested, "tests/golden/gemma4-e2b-tiny-nested", true, false,
                           &err)) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(plain.params->n, nested.params->n);
    for (int i = 0; i < plain.params->n; i++) {
        const struct param_info *info = &plain.params->info[i];
        assert_string_equal(info->name, nested.params->info[i].name);
        float *a = mem_alloc_array((size_t)info->n_elements, sizeof(float));
        float *b = mem_alloc_array((size_t)info->n_elements, sizeof(float));
        assert_true(model_source_read(&plain, i, 0, info->dim[0], a, &err));
        assert_true(model_source_read(&nested, i, 0, info->dim[0], b, &err));
        assert_memory_equal(a, b, (size_t)info->n_elements * sizeof(float));
        mem_free(a);
        mem_free(b);
    }
    model_source_close(&plain);
    model_source_close(&nested);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    struct model_source source = {0};
    struct error err;
    assert_false(model_source_open(&source, "tests/golden/none", true, false, &err));
    assert_non_null(strstr(err.message, "tests/golden/none: no such model"));
    assert_int_equal(error_exit_code(err.kind), 3);
    /* Weights are there, the tokenizer is not. */
    assert_false(
        model_source_open(&source, "tests/golden/gemma3-tiny", true, true, &err));
    assert_non_null(strstr(err.message, "tokenizer.json"));
    assert_null(source.weights);
    /* Mixture of experts is refused. */
    assert_false(
        model_source_open(&source, "tests/golden/gemma4-moe-tiny", true, false, &err));
    assert_non_null(strstr(err.message, "experts"));
    assert_int_equal(error_exit_code(err.kind), 3);
}

/* With an adapter the model is W + 2 B A (alpha 8, rank 4): checked by the reference's
 * own tensors, for one row. */
static void an_adapter_is_merged_into_what_is_read(void **state)
{
    (void)state;
    struct model_source source = {0};
    struct error err;
    if (!model_source_open(&source, "tests/golden/gemma4-e2b-tiny", true, false,
                           &err) ||
        !model_source_open_adapter(&source, "tests/golden/gemma4-e2b-tiny-lora",
                                   &err)) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(source.params->n, source.params->n_model);
    const struct params *merged = source.merged_params;
    const int q = params_index(source.params, PARAM_Q, 1);
    float a[4 * 64], b[4], plain[64], row[64];
    assert_true(lora_read(source.adapter, params_adapter(merged, PARAM_LORA_A, q), 0, 4,
                          a, &err));
    assert_true(lora_read(source.adapter, params_adapter(merged, PARAM_LORA_B, q), 7, 1,
                          b, &err));
    assert_true(weights_read(source.weights, q, 7, 1, plain, &err));
    assert_true(model_source_read(&source, q, 7, 1, row, &err));
    for (int i = 0; i < 64; i++) {
        double expected = (double)plain[i];
        for (int k = 0; k < 4; k++) {
            expected += 2.0 * (double)b[k] * (double)a[k * 64 + i];
        }
        assert_true(fabs((double)row[i] - expected) < 1e-6);
    }
    /* What the adapter changes is not what lies in the file. */
    enum dtype dtype;
    assert_null(model_source_view(&source, q, &dtype));
    enum dtype *stored = model_source_dtypes(&source);
    assert_int_equal(stored[q], DTYPE_F32);
    mem_free(stored);
    assert_non_null(model_source_view(
        &source, params_index(source.params, PARAM_Q_NORM, 1), &dtype));
    model_source_close(&source);
    assert_null(source.adapter);
    assert_false(
        model_source_open(&source, "tests/golden/gemma3-tiny", true, false, &err) &&
        model_source_open_adapter(&source, "tests/golden/gemma4-e2b-tiny-lora", &err));
    assert_non_null(strstr(err.message, "adapter_model.safetensors: tensor "));
    model_source_close(&source);
}

/* What can be read in place is read there, in the file's dtype. */
static void dtypes_are_those_of_the_file(void **state)
{
    (void)state;
    struct model_source source = {0};
    struct error err;
    if (!model_source_open(&source, "examples/demo/model", true, false, &err)) {
        fail_msg("%s", err.message);
    }
    enum dtype *stored = model_source_dtypes(&source);
    for (int i = 0; i < source.params->n; i++) {
        assert_int_equal(stored[i], DTYPE_BF16);
    }
    mem_free(stored);
    model_source_close(&source);
}

static void a_file_is_gguf_whatever_its_name(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    /* This one has no suffix and, as the message says, not all that a tokenizer needs. */
    struct tokenizer *tokenizer =
        model_source_tokenizer("fuzz/seeds/fuzz_gguf/model", &err);
    assert_null(tokenizer);
    if (strstr(err.message, "tokenizer.ggml.") == NULL) {
        fail_msg("%s", err.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_layout_gives_the_same_weights),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(an_adapter_is_merged_into_what_is_read),
        cmocka_unit_test(dtypes_are_those_of_the_file),
        cmocka_unit_test(a_file_is_gguf_whatever_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
