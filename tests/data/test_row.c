/*
 * Rows of text and of tokens before they become examples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "data/row.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

/* "id:weight" of each token that carries weight, just "id" for the others. */
static void assert_row(const struct row *row, const char *wanted)
{
    struct str text = {0};
    for (size_t i = 0; i < row->n; i++) {
        str_printf(&text, i > 0 ? " %d" : "%d", row->tokens.ids[i]);
        if (row->weight[i] > 0) {
            str_printf(&text, ":%g", (double)row->weight[i]);
        }
    }
    assert_string_equal(str_text(&text), wanted);
    str_deinit(&text);
}

/* Token texts joined by '|', those with loss in brackets. */
static void assert_text_row(const struct tokenizer *tokenizer, const char *prompt,
                            const char *response, bool has_loss_on_all, bool ends,
                            const char *wanted)
{
    struct row row = {0};
    struct str text = {0};
    struct str shown = {0};
    struct error err = {.message = ""};
    str_printf(&text, "%s%s", prompt, response);
    if (!row_from_text(&row, tokenizer, text.text, text.length, strlen(prompt),
                       has_loss_on_all, ends, &err)) {
        fail_msg("%s", err.message);
    }
    row_finish(&row, row.n);
    for (size_t i = 0; i < row.n; i++) {
        const char *token = tokenizer_token_text(tokenizer, row.tokens.ids[i]);
        str_printf(&shown, row.weight[i] > 0 ? "%s[%s]" : "%s%s", i > 0 ? "|" : "",
                   token);
    }
    assert_string_equal(str_text(&shown), wanted);
    str_deinit(&shown);
    str_deinit(&text);
    row_deinit(&row);
}

static void loss_on_the_response(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = tokenizer_build_small();
    assert_text_row(tokenizer, "What\n", "the", false, true,
                    "<bos>|What|\n|[t]|[h]|[e]|[<eos>]");
    assert_text_row(tokenizer, "What\n", "the", false, false,
                    "<bos>|What|\n|[t]|[h]|[e]");
    assert_text_row(tokenizer, "What\n", "the", true, true,
                    "<bos>|[What]|[\n]|[t]|[h]|[e]|[<eos>]");
    assert_text_row(tokenizer, "What\n", "", false, true, "<bos>|What|\n|[<eos>]");
    assert_text_row(tokenizer, "", "a", false, false, "<bos>|[a]");
    assert_text_row(tokenizer, "", "", false, false, "<bos>");
    /* The whole text is encoded: the token on the border holds both sides, with
     * loss. */
    assert_text_row(tokenizer, "What ", "is", false, false,
                    "<bos>|What|[\xe2\x96\x81is]");
    assert_text_row(tokenizer, "W\n", "\n", false, false, "<bos>|W|[\n\n]");
    /* A character without a token, in bytes. */
    assert_text_row(tokenizer, "W", "\xc3\xa8", false, false,
                    "<bos>|W|[<0xC3>]|[<0xA8>]");
    tokenizer_destroy(tokenizer);
}

/* C11: exactly one BOS, whether the text brings it or not. */
static void one_bos(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = tokenizer_build_small();
    assert_text_row(tokenizer, "<bos>What", "a", false, true, "<bos>|What|[a]|[<eos>]");
    assert_text_row(tokenizer, "W", "a<eos>", false, true, "<bos>|W|[a]|[<eos>]");
    struct row row = {0};
    struct error err = {.message = ""};
    assert_false(row_from_text(&row, tokenizer, "a<bos>", 6, 1, false, true, &err));
    assert_non_null(strstr(err.message, "BOS token again, as token 2"));
    row_clear(&row);
    assert_false(
        row_from_text(&row, tokenizer, "<bos><bos>", 10, 0, false, true, &err));
    row_deinit(&row);
    tokenizer_destroy(tokenizer);
}

static bool read_tokens(struct row *row, const char *json, struct error *err)
{
    json_t *object = json_loads(json, 0, NULL);
    assert_non_null(object);
    row_clear(row);
    const bool is_read = row_from_tokens(row, object, 100, err);
    json_decref(object);
    return is_read;
}

static void assert_tokens(const char *json, const char *wanted, size_t n_documents)
{
    struct row row = {0};
    struct error err = {.message = ""};
    if (!read_tokens(&row, json, &err)) {
        fail_msg("%s", err.message);
    }
    row_finish(&row, row.n);
    assert_row(&row, wanted);
    assert_int_equal(row.n_documents, n_documents);
    row_deinit(&row);
}

static void token_rows(void **state)
{
    (void)state;
    assert_tokens("{\"input_ids\": [2, 5, 6]}", "2 5:1 6:1", 1);
    assert_tokens("{\"input_ids\": []}", "", 0);
    assert_tokens("{\"input_ids\": [2, 5, 6], \"labels\": [2, -100, 6]}", "2 5 6:1", 1);
    assert_tokens("{\"input_ids\": [2, 5, 6], \"weight\": 0.5}", "2 5:0.5 6:0.5", 1);
    assert_tokens("{\"input_ids\": [2, 5, 6], \"weight\": 0}", "2 5 6", 1);
    assert_tokens("{\"input_ids\": [2, 5, 6], \"weight\": 1000000}",
                  "2 5:1e+06 6:1e+06", 1);
    assert_tokens("{\"input_ids\": [2, 5, 6], \"weight\": null}", "2 5:1 6:1", 1);
    assert_tokens("{\"input_ids\": [2, 5, 6], \"labels\": null}", "2 5:1 6:1", 1);
    /* Documents: their first token is no target. */
    assert_tokens("{\"input_ids\": [2, 5, 6, 7, 2, 8], "
                  "\"position_ids\": [0, 1, 0, 1, 0, 1]}",
                  "2 5:1 6 7:1 2 8:1", 3);
    assert_tokens("{\"input_ids\": [2, 5, 6], \"position_ids\": [7, 8, 9]}",
                  "2 5:1 6:1", 1);
}

/* D2, C12: any side and amount of padding gives the same row. */
static void padding_is_stripped(void **state)
{
    (void)state;
    assert_tokens(
        "{\"input_ids\": [0, 0, 2, 5, 6], \"attention_mask\": [0, 0, 1, 1, 1]}",
        "2 5:1 6:1", 1);
    assert_tokens("{\"input_ids\": [2, 5, 6, 0], \"attention_mask\": [1, 1, 1, 0], "
                  "\"labels\": [2, 5, 6, -100]}",
                  "2 5:1 6:1", 1);
    assert_tokens("{\"input_ids\": [0, 2, 5, 6], \"attention_mask\": [0, 1, 1, 1], "
                  "\"labels\": [-100, 2, 5, 6], \"position_ids\": [1, 0, 1, 2]}",
                  "2 5:1 6:1", 1);
    assert_tokens("{\"input_ids\": [0, 2, 5, 6], \"attention_mask\": [0, 1, 1, 1], "
                  "\"position_ids\": [0, 1, 2, 3]}",
                  "2 5:1 6:1", 1);
    assert_tokens(
        "{\"input_ids\": [2, 5, 0, 2, 6], \"attention_mask\": [1, 1, 0, 1, 1], "
        "\"position_ids\": [0, 1, 2, 0, 1]}",
        "2 5:1 2 6:1", 2);
    assert_tokens("{\"input_ids\": [0, 0], \"attention_mask\": [0, 0]}", "", 0);
}

static void cutting(void **state)
{
    (void)state;
    struct row row = {0};
    struct error err = {.message = ""};
    assert_true(read_tokens(&row,
                            "{\"input_ids\": [2, 5, 6, 7, 2, 8], "
                            "\"position_ids\": [0, 1, 0, 1, 0, 1]}",
                            &err));
    assert_int_equal(row_finish(&row, 4), 2);
    assert_int_equal(row.n_documents, 2);
    assert_int_equal(row_finish(&row, 1), 0);
    assert_int_equal(row.n_documents, 1);
    row_deinit(&row);
}

static void assert_refused(const char *json, const char *why)
{
    struct row row = {0};
    struct error err = {.message = ""};
    assert_false(read_tokens(&row, json, &err));
    assert_int_equal(err.kind, ERROR_DATA);
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
    row_deinit(&row);
}

static void broken_token_rows(void **state)
{
    (void)state;
    assert_refused("{}", "input_ids: expected an array");
    assert_refused("{\"input_ids\": 5}", "input_ids: expected an array");
    assert_refused("{\"input_ids\": [2, \"x\"]}", "input_ids[1] is not an integer");
    assert_refused("{\"input_ids\": [2, 100]}",
                   "input_ids[1] is 100, expected 0 to 99");
    assert_refused("{\"input_ids\": [-1]}", "input_ids[0] is -1");
    assert_refused("{\"input_ids\": [2, 5], \"labels\": [2]}",
                   "labels: expected an array of 2 integers");
    assert_refused("{\"input_ids\": [2, 5], \"labels\": [5, -100]}",
                   "labels[0] is 5: expected -100 or input_ids[0], 2 (labels are not");
    assert_refused("{\"input_ids\": [2], \"labels\": [-7]}", "labels[0] is -7");
    assert_refused("{\"input_ids\": [2], \"labels\": [-101]}", "labels[0] is -101");
    assert_refused("{\"input_ids\": [2], \"attention_mask\": [2]}",
                   "attention_mask[0] is 2, expected 0 to 1");
    assert_refused("{\"input_ids\": [2, 3], \"position_ids\": [0, 2]}",
                   "position_ids[1] is 2 after 0");
    assert_refused("{\"input_ids\": [2], \"weight\": -1}", "weight: expected");
    assert_refused("{\"input_ids\": [2], \"weight\": 1e300}", "weight: expected");
    assert_refused("{\"input_ids\": [2], \"weight\": 1000001}",
                   "weight: expected a number from 0 to 1e+06");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_on_the_response),
        cmocka_unit_test(one_bos),
        cmocka_unit_test(token_rows),
        cmocka_unit_test(padding_is_stripped),
        cmocka_unit_test(cutting),
        cmocka_unit_test(broken_token_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
