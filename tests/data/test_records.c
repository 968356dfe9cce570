/*
 * JSONL of each format to examples; what is cut, dropped and refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"
#include "data/records.h"
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

static const struct records_options dolly = {
    .format = RECORDS_INSTRUCTION,
    .template_text = "Instruction: {instruction}\nContext: {context}\nResponse: ",
    .response = "response",
    .ends_with_eos = true,
};

static void read_or_fail(struct records *records, const char *text,
                         const struct records_options *options)
{
    struct error err = {.message = ""};
    if (!records_read_text(records, text, strlen(text), "t.jsonl", options, small,
                           &err)) {
        fail_msg("%s", err.message);
    }
}

/* The text of all tokens but specials, or of those that carry loss. */
static char *decoded(const struct example *example, bool only_loss)
{
    struct str text = {0};
    for (int32_t i = 0; i < example->n; i++) {
        if (!only_loss || example->loss_weight[i] > 0) {
            tokenizer_decode(small, &example->ids[i], 1, true, &text);
        }
    }
    str_add(&text, "");
    return text.text;
}

static void assert_example(const struct records *records, size_t i, const char *text,
                           const char *loss)
{
    const struct example whole_example = records_example(records, i);
    const struct example *example = &whole_example;
    struct str whole = {.text = decoded(example, false)};
    struct str part = {.text = decoded(example, true)};
    assert_string_equal(whole.text, text);
    assert_string_equal(part.text, loss);
    str_deinit(&whole);
    str_deinit(&part);
}

static void instruction_rows(void **state)
{
    (void)state;
    struct records records = {0};
    read_or_fail(
        &records,
        "{\"instruction\": \"What?\", \"context\": \"\", \"response\": \"a b\"}\n"
        "\n"
        "{\"instruction\": \"x\", \"context\": \"y\\nz\", \"response\": \"c\"}\r\n"
        "{\"instruction\": \"x\", \"context\": null, \"response\": \"d\"}",
        &dolly);
    assert_int_equal(records.n, 3);
    assert_int_equal(records.counts.n_rows, 3);
    assert_example(&records, 0, "Instruction: What?\nResponse: a b", " a b");
    assert_example(&records, 1, "Instruction: x\nContext: y\nz\nResponse: c", "c");
    assert_example(&records, 2, "Instruction: x\nResponse: d", "d");
    for (size_t i = 0; i < records.n; i++) {
        const struct example example = records_example(&records, i);
        assert_int_equal(example.ids[0], tokenizer_bos(small));
        assert_int_equal(example.ids[example.n - 1], tokenizer_eos(small));
        assert_true(example.loss_weight[example.n - 1] > 0);
        assert_true(example.loss_weight[0] == 0.0F);
        assert_int_equal(example.source_row, i);
        assert_int_equal(example.n_documents, 1);
        int32_t n_targets = 0;
        for (int32_t k = 0; k < example.n; k++) {
            n_targets += example.loss_weight[k] > 0;
        }
        assert_int_equal(example.n_targets, n_targets);
    }
    assert_int_equal(records_example(&records, 1).line, 3);
    records_deinit(&records);
    records_deinit(&records);
}

/* C18: decoding exactly the loss-bearing ids gives the response back. */
static void loss_tokens_decode_to_the_response(void **state)
{
    (void)state;
    static const char *const responses[] = {
        "Paris",       "a  b",
        "the\n\nend",  "\xc3\xa9t\xc3\xa8 \xf0\x9f\x98\x8a",
        "4 4",         "What is the er of the",
        "{\"x\": [1]}"};
    struct records_options options = {.format = RECORDS_PROMPT_COMPLETION,
                                      .ends_with_eos = true};
    struct str text = {0};
    for (size_t i = 0; i < ARRAY_LENGTH(responses); i++) {
        json_t *row =
            json_pack("{s:s, s:s}", "prompt", "What? ->", "completion", responses[i]);
        char *line = json_dumps(row, JSON_COMPACT);
        str_printf(&text, "%s\n", line);
        free(line);
        json_decref(row);
    }
    struct records records = {0};
    read_or_fail(&records, text.text, &options);
    assert_int_equal(records.n, ARRAY_LENGTH(responses));
    for (size_t i = 0; i < records.n; i++) {
        const struct example example = records_example(&records, i);
        struct str loss = {.text = decoded(&example, true)};
        assert_string_equal(loss.text, responses[i]);
        str_deinit(&loss);
    }
    str_deinit(&text);
    records_deinit(&records);
}

static void other_formats(void **state)
{
    (void)state;
    struct records records = {0};
    const struct records_options text = {.format = RECORDS_TEXT};
    read_or_fail(&records, "{\"text\": \"What\\nis\"}", &text);
    assert_example(&records, 0, "What\nis", "What\nis");
    const struct records_options tokens = {.format = RECORDS_TOKENS};
    read_or_fail(&records,
                 "{\"input_ids\": [2, 265, 266], \"labels\": [-100, -100, 266]}",
                 &tokens);
    assert_int_equal(records.n, 2);
    assert_int_equal(records_example(&records, 1).n, 3);
    assert_int_equal(records_example(&records, 1).n_targets, 1);
    assert_int_equal(records_example(&records, 1).source_row, 0);
    assert_int_equal(records_example(&records, 1).source, 1);
    const struct records_options all = {.format = RECORDS_PROMPT_COMPLETION,
                                        .loss_on = RECORDS_LOSS_ON_ALL};
    read_or_fail(&records, "{\"prompt\": \"a\", \"completion\": \"b\"}", &all);
    assert_example(&records, 2, "ab", "ab");
    records_deinit(&records);
}

/* C6: cut rows are counted, rows without a loss token are dropped and counted. */
static void cut_and_dropped(void **state)
{
    (void)state;
    struct records records = {0};
    const struct records_options options = {
        .format = RECORDS_PROMPT_COMPLETION, .ends_with_eos = true, .row_tokens = 5};
    read_or_fail(
        &records,
        "{\"prompt\": \"xx\", \"completion\": \"x\"}\n"   /* 5 with both ends */
        "{\"prompt\": \"xx\", \"completion\": \"xxx\"}\n" /* cut */
        "{\"prompt\": \"xxxx\", \"completion\": \"x\"}\n" /* only prompt is left */
        "{\"prompt\": \"\", \"completion\": \"\"}\n",     /* EOS alone */
        &options);
    assert_int_equal(records.counts.n_rows, 4);
    assert_int_equal(records.n, 3);
    assert_int_equal(records.counts.n_truncated, 2);
    assert_int_equal(records.counts.n_dropped, 1);
    assert_int_equal(records_example(&records, 1).n, 5);
    assert_int_equal(records_example(&records, 1).n_targets, 2);
    assert_int_equal(records_example(&records, 2).source_row, 3);
    assert_int_equal(records.counts.n_tokens, 5 + 5 + 2);
    assert_int_equal(records.counts.n_targets, 2 + 2 + 1);
    records_deinit(&records);
}

static void max_rows_and_vocabulary(void **state)
{
    (void)state;
    struct records records = {0};
    struct records_options options = {
        .format = RECORDS_TOKENS, .max_rows = 2, .n_vocabulary = 10};
    read_or_fail(
        &records,
        "{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 9]}\n{\"input_ids\": [77]}",
        &options);
    assert_int_equal(records.n, 2);
    records_deinit(&records);
}

static void assert_refused(const char *text, const struct records_options *options,
                           const struct tokenizer *tokenizer, const char *why)
{
    struct records records = {0};
    struct error err = {.message = ""};
    assert_false(records_read_text(&records, text, strlen(text), "t.jsonl", options,
                                   tokenizer, &err));
    if (strstr(err.message, why) == NULL || strchr(err.message, '\n') != NULL) {
        fail_msg("\"%s\" does not say \"%s\" in one line", err.message, why);
    }
    records_deinit(&records);
}

/* D4: a field that is neither used nor ignored is named. */
static void unused_fields_are_named(void **state)
{
    (void)state;
    static const char *const ignored[] = {"category"};
    struct records_options options = dolly;
    options.template_text = "Instruction: {instruction}\nResponse: ";
    static const char row[] =
        "{\"instruction\": \"a\", \"context\": \"c\", \"response\": \"b\"}";
    assert_refused(
        row, &options, small,
        "t.jsonl:1: column 22: field \"context\" is neither used nor ignored");
    static const char with_category[] = "{\"instruction\": \"a\", \"context\": \"\", "
                                        "\"response\": \"b\", \"category\": 3}";
    assert_refused(with_category, &dolly, small, "field \"category\"");
    options = dolly;
    options.ignore = ignored;
    options.n_ignore = 1;
    struct records records = {0};
    read_or_fail(&records, with_category, &options);
    assert_int_equal(records.n, 1);
    records_deinit(&records);
    const struct records_options tokens = {.format = RECORDS_TOKENS};
    assert_refused("{\"input_ids\": [1], \"token_type_ids\": [0]}", &tokens, NULL,
                   "field \"token_type_ids\" is neither used nor ignored: leave it "
                   "out or name it in data.ignore");
    /* A misspelled name is also a field that is missing: the name that is wanted says
     * more. */
    const struct records_options plain = {.format = RECORDS_TEXT};
    assert_refused("{\"txt\": \"a\"}", &plain, small, "the row has no field \"text\"");
}

/* As Windows editors write it. */
static void a_byte_order_mark_is_passed_over(void **state)
{
    (void)state;
    const struct records_options plain = {.format = RECORDS_TEXT};
    struct records records = {0};
    read_or_fail(&records, "\xEF\xBB\xBF{\"text\": \"a\"}\r\n{\"text\": \"b\"}\r\n",
                 &plain);
    assert_int_equal(records.n, 2);
    records_deinit(&records);
    assert_refused("{\"text\": \"a\"}\n\xEF\xBB\xBF{\"text\": \"b\"}", &plain, small,
                   "t.jsonl:2: column 1: not valid JSON");
}

static void broken_rows_are_named(void **state)
{
    (void)state;
    const struct records_options text = {.format = RECORDS_TEXT};
    assert_refused("{\"text\": \"a\"}\n\n{\"text\": }\n", &text, small,
                   "t.jsonl:3: column 10: not valid JSON");
    /* Torn lines end in a column, in the middle of a file too. */
    assert_refused("{\"text\": \"\xC3\xA9\"\n{\"text\": \"b\"}\n", &text, small,
                   "t.jsonl:1: column 12: not valid JSON");
    assert_refused("[1]", &text, small,
                   "t.jsonl:1: column 1: expected one JSON object");
    assert_refused("{\"text\": \"a\"} {}", &text, small, "not valid JSON");
    assert_refused("{\"text\": \"a\", \"text\": \"b\"}", &text, small, "duplicate");
    assert_refused("{}", &text, small,
                   "t.jsonl:1: column 1: the row has no field \"text\"");
    assert_refused("{\"text\": 5}", &text, small, "field \"text\" is not a text");
    assert_refused("{\"text\": \"\xff\"}", &text, small, "t.jsonl:1: column");
    assert_refused("{\"text\": \"x<bos>\"}", &text, small, "BOS token again");
    assert_refused("{\"text\": \"x\"}", &text, NULL,
                   "data.format text needs a tokenizer");
    struct records_options instruction = {.format = RECORDS_INSTRUCTION};
    assert_refused("", &instruction, small, "needs data.template and data.response");
    instruction = dolly;
    instruction.template_text = "{instruction";
    assert_refused("", &instruction, small, "template: character 1");
    struct error err = {.message = ""};
    struct records records = {0};
    assert_false(
        records_read_file(&records, "tests/no-such.jsonl", &text, small, &err));
    assert_non_null(strstr(err.message, "tests/no-such.jsonl"));
    records_deinit(&records);
}

static void names(void **state)
{
    (void)state;
    enum records_format format;
    assert_true(records_format_from_name("prompt-completion", &format));
    assert_int_equal(format, RECORDS_PROMPT_COMPLETION);
    assert_false(records_format_from_name("csv", &format));
    assert_string_equal(records_format_name(RECORDS_TOKENS), "tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instruction_rows),
        cmocka_unit_test(loss_tokens_decode_to_the_response),
        cmocka_unit_test(other_formats),
        cmocka_unit_test(cut_and_dropped),
        cmocka_unit_test(max_rows_and_vocabulary),
        cmocka_unit_test(unused_fields_are_named),
        cmocka_unit_test(a_byte_order_mark_is_passed_over),
        cmocka_unit_test(broken_rows_are_named),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, make_small, destroy_small);
}
