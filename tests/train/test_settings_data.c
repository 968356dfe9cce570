/*
 * Settings of section data that do not go together, or would be ignored (D4, C40): one
 * line that names the key; and the weights of files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/settings.h"
#include "train/settings_data.h"

/* Settings with `data` (one line of YAML) as their section. */
static bool check(const char *data, struct settings *settings, struct error *err)
{
    char text[400];
    snprintf(text, sizeof(text), "model: m\nrun: r\ntrain: {epochs: 1}\ndata: {%s}\n",
             data);
    settings_init(settings);
    if (!settings_read_text(settings, text, strlen(text), "run.yaml", err)) {
        fail_msg("%s", err->message);
    }
    return settings_data_check(settings, err) && settings_check(settings, err);
}

static void assert_good(const char *data)
{
    struct settings settings;
    struct error err = {.message = ""};
    if (!check(data, &settings, &err)) {
        fail_msg("%s: %s", data, err.message);
    }
    settings_deinit(&settings);
}

static void assert_refused(const char *data, const char *why)
{
    struct settings settings;
    struct error err = {.message = ""};
    assert_false(check(data, &settings, &err));
    assert_int_equal(error_exit_code(err.kind), 2);
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
    settings_deinit(&settings);
}

static void what_goes_together(void **state)
{
    (void)state;
    assert_good("train: a, format: text");
    assert_good("train: a, format: text, overlong: split");
    assert_good("train: [a, b], weights: [2, 0.5], format: tokens");
    assert_good("train: a, template: '{x}', response: y");
    assert_good("train: a, format: chat, chat_format: gemma3, loss_on: last-response");
    assert_good("train: a, format: text, eval_share: 0.1");
    assert_good("train: a, format: tokens, eval: [b, c], overlong: drop");
}

static void what_does_not(void **state)
{
    (void)state;
    assert_refused("format: text", "data.train is missing");
    assert_refused("train: a", "data.template is missing");
    assert_refused("train: a, template: '{x}'", "data.response is missing");
    assert_refused("train: a, format: text, template: '{x}'",
                   "data.template is for data.format instruction, but data.format is "
                   "text");
    assert_refused("train: a, format: chat, response: y",
                   "data.response is for data.format instruction");
    assert_refused("train: a, format: text, chat_format: gemma4",
                   "data.chat_format is for data.format chat");
    assert_refused("train: a, format: chat, overlong: split",
                   "data.overlong split is for data.format text");
    assert_refused("train: a, format: tokens, loss_on: all", "data.loss_on all");
    assert_refused("train: a, format: text, eval: b, eval_share: 0.5",
                   "data.eval and data.eval_share");
}

static void weights(void **state)
{
    (void)state;
    assert_refused("train: [a, b], format: text, weights: 1",
                   "data.weights has 1 numbers, data.train has 2 files");
    static const char *const bad[] = {"0", "-1", "x", "1x", "nan", "inf", "1001", "''"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        char data[100];
        snprintf(data, sizeof(data), "train: [a, b], format: text, weights: [1, %s]",
                 bad[i]);
        assert_refused(data, "data.weights: \"");
    }
    struct settings settings;
    struct error err = {.message = ""};
    assert_true(
        check("train: [a, b], format: text, weights: [2.5, 1e-2]", &settings, &err));
    assert_true(settings_data_weight(&settings, 0) == 2.5);
    assert_true(settings_data_weight(&settings, 1) == 0.01);
    settings_deinit(&settings);
    assert_true(check("train: [a, b], format: text", &settings, &err));
    assert_true(settings_data_weight(&settings, 1) == 1.0);
    settings_deinit(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_together),
        cmocka_unit_test(what_does_not),
        cmocka_unit_test(weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
