/*
 * Answers to fixed prompts: what is written, and that they change with the parameters. That
 * they are what `lathe generate` says is shown by scenarios/42-samples.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/golden.h"
#include "train/sample.h"
#include "train/settings.h"

/* The demo's model as a step that only evaluates. */
struct fixture {
    struct model_source source;
    bool *is_trainable;
    struct engine *engine;
    struct step *step;
    struct settings settings;
    struct sample_options options;
};

static void open_fixture(struct fixture *f)
{
    static const char *const prompts[] = {"Question: 1 + 1?\nAnswer:", "Tom \"has\""};
    struct error err;
    log_set_level(LOG_ERROR);
    *f = (struct fixture){0};
    if (!model_source_open(&f->source, "examples/demo/model", true, true, &err)) {
        fail_msg("%s", err.message);
    }
    f->is_trainable = mem_alloc_array((size_t)f->source.params->n, sizeof(bool));
    f->engine = golden_engine(2);
    const struct step_options options = {.shape = {.config = &f->source.config,
                                                   .params = f->source.params,
                                                   .is_trainable = f->is_trainable,
                                                   .B = 1,
                                                   .T = 8,
                                                   .C = 8,
                                                   .compute = DTYPE_F32},
                                         .evaluates = true};
    const struct step_source from = {.read = model_source_read, .context = &f->source};
    f->step = step_create(f->engine, &options, &from, &err);
    if (f->step == NULL || !step_load(f->step, &err)) {
        fail_msg("%s", err.message);
    }
    settings_init(&f->settings);
    f->settings.data.format = RECORDS_TEXT;
    f->settings.sample.prompts = (struct string_list){prompts, 2};
    f->settings.sample.max_tokens = 5;
    f->options = (struct sample_options){.settings = &f->settings,
                                         .config = &f->source.config,
                                         .params = f->source.params,
                                         .tokenizer = f->source.tokenizer,
                                         .chat_format = CHAT_GEMMA4};
}

static void close_fixture(struct fixture *f)
{
    step_destroy(f->step);
    backend_destroy(f->engine);
    mem_free(f->is_trainable);
    model_source_close(&f->source);
    settings_deinit(&f->settings);
}

/* Lines that were written, as an array; json_decref it. */
static json_t *read_lines(FILE *file)
{
    json_t *lines = json_array();
    char line[4096];
    rewind(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        struct error err;
        json_t *root = json_parse(line, strlen(line), "samples", &err);
        if (root == NULL) {
            fail_msg("%s: %s", err.message, line);
        }
        json_array_append_new(lines, root);
    }
    return lines;
}

static const char *text_of(const json_t *lines, size_t i)
{
    return json_string_value(json_object_get(json_array_get(lines, i), "text"));
}

static void answers_follow_the_parameters(void **state)
{
    (void)state;
    struct fixture f;
    struct error err;
    open_fixture(&f);
    struct sample *sample = sample_create(f.engine, f.step, &f.options, &err);
    if (sample == NULL) {
        fail_msg("%s", err.message);
    }
    FILE *file = tmpfile();
    assert_true(sample_run(sample, 3, file, &err));
    assert_true(sample_run(sample, 4, file, &err));
    /* Another final norm: other logits. */
    const int norm = params_index(f.source.params, PARAM_FINAL_NORM, -1);
    float *values = backend_buffer_host(step_param_buffer(f.step, norm), 0);
    for (int64_t i = 0; i < f.source.params->info[norm].n_elements; i++) {
        values[i] = i % 2 == 0 ? -values[i] : values[i];
    }
    assert_true(sample_run(sample, 5, file, &err));
    json_t *lines = read_lines(file);
    assert_int_equal(json_array_size(lines), 6);
    const json_t *first = json_array_get(lines, 0);
    assert_int_equal(json_integer_value(json_object_get(first, "step")), 3);
    const json_t *second = json_array_get(lines, 1);
    assert_string_equal(json_string_value(json_object_get(second, "prompt")),
                        "Tom \"has\"");
    assert_string_equal(text_of(lines, 0), text_of(lines, 2));
    assert_string_not_equal(text_of(lines, 0), text_of(lines, 4));
    json_decref(lines);
    fclose(file);
    sample_destroy(sample);
    close_fixture(&f);
}

static void what_cannot_be_answered_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct error err;
    open_fixture(&f);
    assert_true(sample_check(&f.options, &err));
    f.settings.sample.max_tokens = f.source.config.max_positions;
    assert_false(sample_check(&f.options, &err));
    assert_int_equal(err.kind, ERROR_USAGE);
    assert_non_null(strstr(err.message, "sample.prompts: number 1"));
    assert_null(sample_create(f.engine, f.step, &f.options, &err));
    /* As a user's turn it needs a few tokens more, and fits. */
    f.settings.sample.max_tokens = 5;
    f.settings.data.format = RECORDS_CHAT;
    f.settings.sample.prompts = STRING_LIST_OF("hello");
    assert_true(sample_check(&f.options, &err));
    sample_destroy(NULL);
    close_fixture(&f);
}

static int n_warnings;

static void count_warnings(void *context, enum log_level level, const char *line)
{
    (void)context;
    n_warnings +=
        level == LOG_WARNING && strstr(line, "step 7: sample failed: Question") != NULL;
}

/* Diverged weights end no run by their samples: one warning, and no answer. */
static void output_that_is_not_finite_is_passed_over(void **state)
{
    (void)state;
    struct fixture f;
    struct error err;
    open_fixture(&f);
    log_set_level(LOG_WARNING);
    struct sample *sample = sample_create(f.engine, f.step, &f.options, &err);
    const int norm = params_index(f.source.params, PARAM_FINAL_NORM, -1);
    float *values = backend_buffer_host(step_param_buffer(f.step, norm), 0);
    values[0] = (float)NAN;
    FILE *file = tmpfile();
    n_warnings = 0;
    log_set_handler(count_warnings, NULL);
    assert_true(sample_run(sample, 7, file, &err));
    log_set_handler(NULL, NULL);
    assert_int_equal(n_warnings, 1);
    assert_int_equal(ftell(file), 0);
    fclose(file);
    sample_destroy(sample);
    close_fixture(&f);
}

/* Half an answer is not written. */
static void a_signal_ends_it(void **state)
{
    (void)state;
    struct fixture f;
    struct error err;
    open_fixture(&f);
    struct sample *sample = sample_create(f.engine, f.step, &f.options, &err);
    FILE *file = tmpfile();
    interrupt_note(SIGTERM);
    assert_false(sample_run(sample, 1, file, &err));
    assert_int_equal(err.kind, ERROR_CANCELLED);
    interrupt_note(0);
    assert_int_equal(ftell(file), 0);
    fclose(file);
    sample_destroy(sample);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_follow_the_parameters),
        cmocka_unit_test(what_cannot_be_answered_is_refused),
        cmocka_unit_test(output_that_is_not_finite_is_passed_over),
        cmocka_unit_test(a_signal_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
