/*
 * One line to one row, in each format; what is refused. tests/data/test_records.c has
 * whole files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/records.h"
#include "data/row.h"
#include "data/row_format.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

static struct tokenizer *small;

static int make_small(void **state)
{
    (void)state;
    small = tokenizer_build_small();
    return 0;
}

static int destroy_small(void **state)
{
    (void)state;
    tokenizer_destroy(small);
    return 0;
}

static struct row_format *create(const struct records_options *options)
{
    struct error err = {.message = ""};
    struct row_format *format = row_format_create(options, small, &err);
    if (format == NULL) {
        fail_msg("%s", err.message);
    }
    return format;
}

/* One scratch serves row after row: nothing of the one before is left. */
static void a_scratch_is_used_again(void **state)
{
    (void)state;
    const struct records_options options = {.format = RECORDS_PROMPT_COMPLETION,
                                            .ends_with_eos = true};
    struct row_format *format = create(&options);
    struct row_scratch *scratch = row_scratch_create(format);
    static const char *const lines[] = {
        "{\"prompt\": \"a b c d e\", \"completion\": \"f\"}",
        "{\"prompt\": \"\", \"completion\": \"x\"}\r",
        "{\"prompt\": 5, \"completion\": \"x\"}",
        "{\"prompt\": \"a\", \"completion\": \"yz\"}"};
    static const size_t lengths[] = {0, 3, 0, 5}; /* with both ends */
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        struct error err = {.message = ""};
        const struct row *row =
            row_format_read(format, scratch, lines[i], strlen(lines[i]), &err);
        assert_int_equal(row == NULL, i == 2);
        if (lengths[i] > 0) {
            assert_int_equal(row->n, lengths[i]);
            assert_int_equal(row->tokens.ids[0], tokenizer_bos(small));
            assert_int_equal(row->n_documents, 1);
        }
    }
    assert_int_equal(row_format_bos(format), tokenizer_bos(small));
    row_scratch_destroy(scratch);
    row_scratch_destroy(NULL);
    row_format_destroy(format);
    row_format_destroy(NULL);
}

static void options_that_lack_something(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    struct records_options options = {.format = RECORDS_INSTRUCTION,
                                      .template_text = "{x}"};
    assert_null(row_format_create(&options, small, &err));
    assert_int_equal(err.kind, ERROR_USAGE);
    options.response = "y";
    options.template_text = "{x";
    assert_null(row_format_create(&options, small, &err));
    options.template_text = "{x}";
    assert_null(row_format_create(&options, NULL, &err));
    assert_non_null(strstr(err.message, "needs a tokenizer"));
    options.format = RECORDS_TOKENS;
    struct row_format *format = row_format_create(&options, NULL, &err);
    assert_non_null(format);
    assert_int_equal(row_format_bos(format), -1);
    row_format_destroy(format);
}

/* D4: in every format a field that it does not use is named; data.ignore allows it. */
static void unused_fields_of_every_format(void **state)
{
    (void)state;
    static const char *const ignored[] = {"id"};
    static const struct {
        enum records_format format;
        const char *line;
    } cases[] = {
        {RECORDS_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
                       "\"id\": 1}"},
        {RECORDS_PROMPT_COMPLETION,
         "{\"prompt\": \"a\", \"completion\": \"b\", \"id\": 1}"},
        {RECORDS_INSTRUCTION, "{\"x\": \"a\", \"y\": \"b\", \"id\": 1}"},
        {RECORDS_TEXT, "{\"text\": \"a\", \"id\": 1}"},
        {RECORDS_TOKENS, "{\"input_ids\": [1], \"id\": 1}"},
    };
    struct tokenizer_build build = {0};
    tokenizer_build_begin(&build);
    tokenizer_build_added(&build, "<start_of_turn>", true);
    tokenizer_build_added(&build, "<end_of_turn>", true);
    struct tokenizer *chat = tokenizer_build_finish(&build, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct error err = {.message = ""};
        struct records_options options = {.format = cases[i].format,
                                          .template_text = "{x}",
                                          .response = "y",
                                          .ignore = ignored,
                                          .n_ignore = 1};
        struct row_format *format = row_format_create(&options, chat, &err);
        struct row_scratch *scratch = row_scratch_create(format);
        const size_t length = strlen(cases[i].line);
        if (row_format_read(format, scratch, cases[i].line, length, &err) == NULL) {
            fail_msg("%s", err.message);
        }
        options.n_ignore = 0;
        assert_null(row_format_read(format, scratch, cases[i].line, length, &err));
        assert_int_equal(err.kind, ERROR_DATA);
        if (strstr(err.message, "field \"id\" is neither used nor ignored") == NULL) {
            fail_msg("%s", err.message);
        }
        /* What says nothing is absent, as tables have each field in each row. */
        static const char *const empty[] = {"null", "[]", "\"\""};
        for (size_t k = 0; k < ARRAY_LENGTH(empty); k++) {
            char line[200];
            snprintf(line, sizeof(line), "%.*s%s}", (int)length - 2, cases[i].line,
                     empty[k]);
            if (row_format_read(format, scratch, line, strlen(line), &err) == NULL) {
                fail_msg("%s: %s", line, err.message);
            }
        }
        row_scratch_destroy(scratch);
        row_format_destroy(format);
    }
    tokenizer_destroy(chat);
}

/* A fault is named by the column of its field, counted in characters, or by that where
 * the object begins if something is not there. */
static void faults_name_their_column(void **state)
{
    (void)state;
    static const struct {
        enum records_format format;
        const char *line, *message;
    } cases[] = {
        {RECORDS_PROMPT_COMPLETION, "{\"prompt\": \"a\", \"completion\": 5}",
         "column 17: field \"completion\" is not a text"},
        {RECORDS_PROMPT_COMPLETION, "{\"prompt\": \"a\"}",
         "column 1: the row has no field \"completion\""},
        {RECORDS_PROMPT_COMPLETION, " \t{\"prompt\": \"a\"}",
         "column 3: the row has no field \"completion\""},
        {RECORDS_TEXT, "{\"text\": \"a\", \"id\": 1}",
         "column 15: field \"id\" is neither used nor ignored"},
        /* Characters, not bytes: two, three and four bytes each. */
        {RECORDS_TEXT,
         "{\"text\": \"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\", \"id\": 1}",
         "column 17: field \"id\" is neither used nor ignored"},
        /* The same word as a text, and as the end of another key. */
        {RECORDS_TEXT, "{\"text\": \"id\", \"id\" : 1}",
         "column 16: field \"id\" is neither used nor ignored"},
        {RECORDS_TEXT, "{\"text\": \"a \\\"id: \", \"id\": 1}",
         "column 22: field \"id\" is neither used nor ignored"},
        /* Written with an escape it is not found: where the object begins. */
        {RECORDS_TEXT, "{\"text\": \"a\", \"i\\u0064\": 1}",
         "column 1: field \"id\" is neither used nor ignored"},
        {RECORDS_TEXT, "  [1]", "column 3: expected one JSON object"},
        {RECORDS_TEXT, "{\"text\": \"a<bos>\"}", "column 1: the text holds the BOS"},
        {RECORDS_TOKENS, "{\"ids\": [1]}", "column 1: input_ids: expected an array"},
        {RECORDS_TOKENS, "{ \"input_ids\": 1}",
         "column 3: input_ids: expected an array"},
        {RECORDS_TOKENS, "{\"labels\": [1, 2], \"input_ids\": [1]}",
         "column 2: labels: expected an array"},
        {RECORDS_TOKENS, "{\"input_ids\": [1, 2], \"labels\": [1, 3]}",
         "column 23: labels[1] is 3"},
        {RECORDS_TOKENS, "{\"input_ids\": [1], \"weight\": -1}",
         "column 20: weight: expected"},
        {RECORDS_TOKENS, "{\"input_ids\": [1, 2], \"position_ids\": [0, 5]}",
         "column 23: position_ids[1] is 5 after 0"},
        {RECORDS_TOKENS, "{\"input_ids\": [1], \"attention_mask\": [2]}",
         "column 20: attention_mask[0] is 2"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct error err = {.message = ""};
        const struct records_options options = {.format = cases[i].format};
        struct row_format *format = create(&options);
        struct row_scratch *scratch = row_scratch_create(format);
        assert_null(row_format_read(format, scratch, cases[i].line,
                                    strlen(cases[i].line), &err));
        if (strncmp(err.message, cases[i].message, strlen(cases[i].message)) != 0) {
            fail_msg("\"%s\", expected \"%s\"", err.message, cases[i].message);
        }
        row_scratch_destroy(scratch);
        row_format_destroy(format);
    }
}

/* Faults in messages: of a field that nothing uses, and of the messages as such. */
static void faults_of_messages_name_their_column(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"{\"id\": 1, \"messages\": []}", "column 11: "},
        {"{\"x\": 1}", "column 1: the row has no field \"messages\""},
        {"{\"messages\": 5}", "column 2: messages: expected an array"},
        {"{\"messages\": [], \"conversations\": []}", "column 2: "},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": \"b\"}]}",
         "column 48: messages, message 1: field \"name\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"id\": 1}",
         "column 50: field \"id\""},
    };
    struct tokenizer_build build = {0};
    tokenizer_build_begin(&build);
    tokenizer_build_added(&build, "<start_of_turn>", true);
    tokenizer_build_added(&build, "<end_of_turn>", true);
    struct tokenizer *chat = tokenizer_build_finish(&build, NULL);
    const struct records_options options = {.format = RECORDS_CHAT};
    struct error err = {.message = ""};
    struct row_format *format = row_format_create(&options, chat, &err);
    struct row_scratch *scratch = row_scratch_create(format);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_null(row_format_read(format, scratch, cases[i].line,
                                    strlen(cases[i].line), &err));
        if (strncmp(err.message, cases[i].message, strlen(cases[i].message)) != 0) {
            fail_msg("\"%s\", expected \"%s\"", err.message, cases[i].message);
        }
    }
    row_scratch_destroy(scratch);
    row_format_destroy(format);
    tokenizer_destroy(chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scratch_is_used_again),
        cmocka_unit_test(options_that_lack_something),
        cmocka_unit_test(unused_fields_of_every_format),
        cmocka_unit_test(faults_name_their_column),
        cmocka_unit_test(faults_of_messages_name_their_column),
    };
    return cmocka_run_group_tests(tests, make_small, destroy_small);
}
