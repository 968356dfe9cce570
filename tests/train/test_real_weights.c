/*
 * Gemma 3 270M itself on eight rows of GSM8K: the loss of each token as transformers gives
 * it. Needs models/gemma-3-270m.gguf (tools/get-gemma3-270m) and LATHE_TEST_ALL=1.
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
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/records.h"
#include "support/golden.h"
#include "train/evaluate.h"

static const char model_path[] = "models/gemma-3-270m.gguf";

enum { T = 256 };

struct check {
    const json_t *rows;
    size_t n_seen;
    double worst; /* of single tokens, absolute */
};

/* One row of the file per batch, in order. */
static void compare(void *context, const struct batch *batch, const float *token_loss)
{
    struct check *check = context;
    const json_t *row = json_array_get(check->rows, check->n_seen++);
    const json_t *expected = json_object_get(row, "token_loss");
    assert_int_equal(batch->n_targets, json_array_size(expected));
    double sum = 0.0;
    for (int32_t c = 0; c < batch->n_targets; c++) {
        const double loss = json_number_value(json_array_get(expected, (size_t)c));
        check->worst = fmax(check->worst, fabs((double)token_loss[c] - loss));
        sum += (double)token_loss[c];
    }
    const double mean = json_number_value(json_object_get(row, "loss"));
    assert_true(fabs(sum / batch->n_targets - mean) <= 1e-3 * mean);
}

static void read_rows(const json_t *rows, struct records *records)
{
    struct str lines = {0};
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *ids =
            json_dumps(json_object_get(json_array_get(rows, i), "ids"), JSON_COMPACT);
        str_printf(&lines, "{\"input_ids\": %s}\n", ids);
        free(ids);
    }
    const struct records_options options = {.format = RECORDS_TOKENS,
                                            .n_vocabulary = 262144};
    struct error err;
    assert_true(records_read_text(records, lines.text, lines.length, "rows", &options,
                                  NULL, &err));
    str_deinit(&lines);
}

static void losses_are_the_references(void **state)
{
    (void)state;
    if (getenv("LATHE_TEST_ALL") == NULL || !file_exists(model_path)) {
        print_message("# skipped: needs %s and LATHE_TEST_ALL=1\n", model_path);
        skip();
    }
    struct error err;
    json_t *root =
        json_read_file("tests/golden/gemma3-270m/expected.json", 1 << 20, &err);
    assert_non_null(root);
    struct check check = {.rows = json_object_get(root, "rows")};
    struct records records = {0};
    read_rows(check.rows, &records);
    struct model_source source = {0};
    assert_true(model_source_open(&source, model_path, true, false, &err));
    bool *frozen = mem_alloc_array((size_t)source.params->n, sizeof(bool));
    struct engine *engine = golden_engine(2);
    const int32_t C = evaluate_capacity(&records, 1, T, false);
    const struct step_options options = {.shape = {.config = &source.config,
                                                   .params = source.params,
                                                   .is_trainable = frozen,
                                                   .B = 1,
                                                   .T = T,
                                                   .C = C,
                                                   .compute = DTYPE_F32},
                                         .evaluates = true};
    const struct step_source from = {.read = model_source_read, .context = &source};
    struct step *step = step_create(engine, &options, &from, &err);
    assert_non_null(step);
    assert_true(step_load(step, &err));
    const struct evaluate_options evaluation = {
        .B = 1, .T = T, .C = C, .visit = compare, .context = &check};
    struct evaluate_result result;
    assert_true(evaluate_run(step, &records, &evaluation, &result, &err));
    assert_int_equal(check.n_seen, json_array_size(check.rows));
    printf("# 270M: %lld targets, token losses within %.1e\n",
           (long long)result.n_targets, check.worst);
    assert_true(check.worst < 1e-2);
    step_destroy(step);
    backend_destroy(engine);
    mem_free(frozen);
    model_source_close(&source);
    records_deinit(&records);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_are_the_references)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
