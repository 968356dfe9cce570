/*
 * One line per step that any JSON reader takes; three rates, of which only slots counts
 * padding (D1, C23).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/error.h"
#include "base/json.h"
#include "train/metrics.h"

static json_t *print(const struct metrics *metrics)
{
    struct str line = {0};
    struct error err;
    metrics_print(metrics, &line);
    assert_int_equal(line.text[line.length - 1], '\n');
    json_t *root = json_parse(line.text, line.length, "metrics", &err);
    if (root == NULL) {
        fail_msg("%s: %s", err.message, line.text);
    }
    str_deinit(&line);
    return root;
}

static double number(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_number(value)) {
        fail_msg("no number %s", key);
    }
    return json_number_value(value);
}

static struct metrics example(void)
{
    return (struct metrics){.step = 7,
                            .epoch = 0.25,
                            .loss = 2.5,
                            .eval_loss = (double)NAN,
                            .grad_norm = 1.5,
                            .lr = 2e-5,
                            .n_targets = 300,
                            .n_real_tokens = 1000,
                            .n_slots = 2048,
                            .step_ms = 500.0,
                            .data_ms = 1.0,
                            .compute_ms = 450.0,
                            .update_ms = 49.0,
                            .memory_bytes = 123456789,
                            .mfu = (double)NAN};
}

static void rates_do_not_count_padding(void **state)
{
    (void)state;
    const struct metrics metrics = example();
    json_t *root = print(&metrics);
    assert_true(number(root, "loss_tokens_per_s") == 600.0);
    assert_true(number(root, "real_tokens_per_s") == 2000.0);
    assert_true(number(root, "slots_per_s") == 4096.0);
    json_decref(root);
}

static void keys_are_those_of_the_contract(void **state)
{
    (void)state;
    struct metrics metrics = example();
    metrics.eval_loss = 2.25;
    json_t *root = print(&metrics);
    static const char *const keys[] = {"step",
                                       "epoch",
                                       "loss",
                                       "eval_loss",
                                       "grad_norm",
                                       "lr",
                                       "n_targets",
                                       "step_ms",
                                       "data_ms",
                                       "compute_ms",
                                       "update_ms",
                                       "memory_bytes",
                                       "loss_tokens_per_s",
                                       "real_tokens_per_s",
                                       "slots_per_s"};
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
        number(root, keys[i]);
    }
    assert_true(json_is_null(json_object_get(root, "mfu")));
    assert_int_equal(json_object_size(root), ARRAY_LENGTH(keys) + 1);
    assert_true(number(root, "loss") == 2.5);
    json_decref(root);
}

static void what_is_not_finite_is_null(void **state)
{
    (void)state;
    struct metrics metrics = example();
    metrics.loss = (double)NAN;
    metrics.grad_norm = (double)INFINITY;
    metrics.is_skipped = true;
    json_t *root = print(&metrics);
    assert_true(json_is_null(json_object_get(root, "loss")));
    assert_true(json_is_null(json_object_get(root, "grad_norm")));
    assert_null(json_object_get(root, "eval_loss"));
    assert_true(json_is_true(json_object_get(root, "skipped")));
    json_decref(root);
}

/* C-like names and file names of any bytes stay JSON. */
static void groups_and_files_are_objects(void **state)
{
    (void)state;
    struct metrics metrics = example();
    const struct metrics_group groups[] = {{"*norm*", 0.5, 1e-5, 20.0},
                                           {"other", (double)NAN, 0.0, 3.0}};
    const struct metrics_source sources[] = {{"a \"b\\\xff\n.jsonl", 1.5},
                                             {"\xc3\xa9.jsonl", (double)NAN}};
    metrics.eval_loss = 1.5;
    metrics.groups = groups;
    metrics.n_groups = 2;
    metrics.eval_sources = sources;
    metrics.n_eval_sources = 2;
    metrics.is_skipped = true;
    metrics.is_outlier = true;
    json_t *root = print(&metrics);
    json_t *norm = json_object_get(json_object_get(root, "groups"), "*norm*");
    assert_true(number(norm, "grad_norm") == 0.5);
    assert_true(number(norm, "update_norm") == 1e-5);
    assert_true(number(norm, "weight_norm") == 20.0);
    json_t *other = json_object_get(json_object_get(root, "groups"), "other");
    assert_true(json_is_null(json_object_get(other, "grad_norm")));
    json_t *losses = json_object_get(root, "eval_sources");
    assert_true(number(losses, "a \"b\\??.jsonl") == 1.5);
    assert_true(json_is_null(json_object_get(losses, "\xc3\xa9.jsonl")));
    assert_true(json_is_true(json_object_get(root, "outlier")));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_do_not_count_padding),
        cmocka_unit_test(keys_are_those_of_the_contract),
        cmocka_unit_test(what_is_not_finite_is_null),
        cmocka_unit_test(groups_and_files_are_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
