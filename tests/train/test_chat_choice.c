/*
 * Which turn format a model gets, and the one warning about an unknown template.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"
#include "train/chat_choice.h"

/* A model folder with nothing but a template, and a tokenizer beside it. */
struct model {
    char folder[40];
    struct tokenizer *tokenizer;
    char log[1000]; /* what the last choice wrote */
};

static void open_model(struct model *model, const char *open, const char *close,
                       const char *template)
{
    struct error err = {.message = ""};
    struct tokenizer_build parts = {0};
    *model = (struct model){.folder = "/tmp/lathe-choice-XXXXXX"};
    assert_non_null(mkdtemp(model->folder));
    if (template != NULL) {
        char *path = file_join(model->folder, "chat_template.jinja");
        assert_true(file_write_atomic(path, template, strlen(template), &err));
        mem_free(path);
    }
    tokenizer_build_begin(&parts);
    tokenizer_build_added(&parts, open, true);
    tokenizer_build_added(&parts, close, true);
    model->tokenizer = tokenizer_build_finish(&parts, NULL);
}

static void close_model(struct model *model)
{
    struct error err;
    tokenizer_destroy(model->tokenizer);
    assert_true(file_remove_tree(model->folder, &err));
}

/* The log goes to a stream in memory. */
static bool choose(struct model *model, enum chat_format_choice choice,
                   enum chat_format *format, struct error *err)
{
    memset(model->log, 0, sizeof(model->log));
    FILE *log = fmemopen(model->log, sizeof(model->log) - 1, "w");
    assert_non_null(log);
    log_set_file(log);
    const bool done = chat_choice(model->folder, model->tokenizer, choice, format, err);
    log_set_file(NULL);
    fclose(log);
    return done;
}

static void the_vocabulary_decides(void **state)
{
    (void)state;
    struct model model;
    struct error err = {.message = ""};
    enum chat_format format = CHAT_GEMMA3;
    open_model(&model, "<|turn>", "<turn|>", NULL);
    assert_true(choose(&model, CHAT_FORMAT_AUTO, &format, &err));
    assert_int_equal(format, CHAT_GEMMA4);
    assert_string_equal(model.log, "");
    assert_true(choose(&model, CHAT_FORMAT_GEMMA4, &format, &err));
    assert_false(choose(&model, CHAT_FORMAT_GEMMA3, &format, &err));
    assert_non_null(strstr(err.message, "no turn marks of data.chat_format gemma3"));
    assert_int_equal(err.kind, ERROR_USAGE);
    close_model(&model);
    open_model(&model, "<|im_start|>", "<|im_end|>", NULL);
    assert_false(choose(&model, CHAT_FORMAT_AUTO, &format, &err));
    assert_non_null(strstr(err.message, "neither gemma3"));
    close_model(&model);
}

static void an_unknown_template_is_warned_of_once(void **state)
{
    (void)state;
    struct model model;
    struct error err = {.message = ""};
    enum chat_format format = CHAT_GEMMA4;
    open_model(&model, "<start_of_turn>", "<end_of_turn>",
               "{{ '<|im_start|>' + message['content'] | trim + '\\n\\n' }}");
    assert_true(choose(&model, CHAT_FORMAT_AUTO, &format, &err));
    assert_int_equal(format, CHAT_GEMMA3);
    assert_non_null(strstr(model.log, "not the gemma3 format"));
    assert_non_null(strstr(model.log, "the template has no <start_of_turn>; has no "
                                      "<end_of_turn>; has <|im_start|>\n"));
    assert_ptr_equal(strchr(model.log, '\n'), strrchr(model.log, '\n'));
    close_model(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vocabulary_decides),
        cmocka_unit_test(an_unknown_template_is_warned_of_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
