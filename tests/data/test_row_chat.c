/*
 * Conversations to tokens with loss: which tokens are learned, what is refused.
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

static struct tokenizer *small[2]; /* by format */

/* Roles are single tokens, as in Gemma's vocabulary. */
static struct tokenizer *build(const char *open, const char *close, const char *config)
{
    static const char *const words[] = {"user", "model", "system", "the",
                                        "\xe2\x96\x81the"};
    struct tokenizer_build parts = {0};
    tokenizer_build_begin(&parts);
    tokenizer_build_added(&parts, open, true);
    tokenizer_build_added(&parts, close, true);
    tokenizer_build_added(&parts, "\n", false);
    tokenizer_build_added(&parts, "\n\n", false);
    for (char c = '!'; c <= '~'; c++) {
        const char text[2] = {c, '\0'};
        tokenizer_build_token(&parts, text);
    }
    tokenizer_build_token(&parts, "\xe2\x96\x81");
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        tokenizer_build_word(&parts, words[i]);
    }
    return tokenizer_build_finish(&parts, config);
}

/* The tokenizer of the Gemma 4 format adds no BOS, as that of the tuned models. */
static int make_small(void **state)
{
    (void)state;
    small[CHAT_GEMMA3] = build("<start_of_turn>", "<end_of_turn>", NULL);
    small[CHAT_GEMMA4] = build("<|turn>", "<turn|>", "{\"add_bos_token\": false}");
    return 0;
}

static int destroy_small(void **state)
{
    (void)state;
    tokenizer_destroy(small[CHAT_GEMMA3]);
    tokenizer_destroy(small[CHAT_GEMMA4]);
    return 0;
}

static bool read_row(struct row *row, const char *json,
                     const struct row_chat_options *options, struct error *err)
{
    json_error_t fault;
    json_t *object = json_loads(json, JSON_ALLOW_NUL, &fault);
    if (object == NULL) {
        fail_msg("%s: %s", json, fault.text);
    }
    row_clear(row);
    const bool is_read =
        row_from_chat(row, object, options, small[options->format], err);
    json_decref(object);
    return is_read;
}

/* Token texts joined by '|', those with loss in brackets, with their weight if it is
 * not 1. */
static void assert_row(const char *json, struct row_chat_options options,
                       const char *wanted)
{
    struct row row = {0};
    struct str shown = {0};
    struct error err = {.message = ""};
    if (!read_row(&row, json, &options, &err)) {
        fail_msg("%s", err.message);
    }
    row_finish(&row, row.n);
    for (size_t i = 0; i < row.n; i++) {
        const char *token =
            tokenizer_token_text(small[options.format], row.tokens.ids[i]);
        str_printf(&shown, row.weight[i] > 0 ? "%s[%s" : "%s%s", i > 0 ? "|" : "",
                   token);
        if (row.weight[i] > 0 && row.weight[i] != 1.0F) {
            str_printf(&shown, ":%g", (double)row.weight[i]);
        }
        str_add(&shown, row.weight[i] > 0 ? "]" : "");
    }
    assert_string_equal(str_text(&shown), wanted);
    str_deinit(&shown);
    row_deinit(&row);
}

static const struct row_chat_options gemma3 = {.format = CHAT_GEMMA3};
static const struct row_chat_options gemma4 = {.format = CHAT_GEMMA4};

#define TWO_TURNS                                        \
    "{\"messages\": [{\"role\": \"user\", \"content\": " \
    "\"a\"}, {\"role\": \"assistant\", \"content\": \" b c\\n\"}]}"
#define FOUR_TURNS                                                             \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "    \
    "\"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": "   \
    "\"c\"}, {\"role\": \"model\", \"content\": \"d\"}, {\"role\": \"user\", " \
    "\"content\": \"e\"}]}"

/* D5, D6, C15: loss on each model turn up to the mark that ends it, which is the last
 * token with loss, and on nothing else. */
static void loss_on_model_turns(void **state)
{
    (void)state;
    assert_row(TWO_TURNS, gemma3,
               "<bos>|<start_of_turn>|user|\n|a|<end_of_turn>|\n|<start_of_turn>|"
               "model|\n|[b]|[\xe2\x96\x81]|[c]|[<end_of_turn>]|\n");
    assert_row(FOUR_TURNS, gemma4,
               "<bos>|<|turn>|user|\n|a|<turn|>|\n|<|turn>|model|\n|[b]|[<turn|>]|\n|"
               "<|turn>|user|\n|c|<turn|>|\n|<|turn>|model|\n|[d]|[<turn|>]|\n|"
               "<|turn>|user|\n|e|<turn|>|\n");
    struct row_chat_options options = gemma4;
    options.has_loss_on_last = true;
    assert_row(FOUR_TURNS, options,
               "<bos>|<|turn>|user|\n|a|<turn|>|\n|<|turn>|model|\n|b|<turn|>|\n|"
               "<|turn>|user|\n|c|<turn|>|\n|<|turn>|model|\n|[d]|[<turn|>]|\n|"
               "<|turn>|user|\n|e|<turn|>|\n");
    options = (struct row_chat_options){.format = CHAT_GEMMA4, .has_loss_on_all = true};
    assert_row(TWO_TURNS, options,
               "<bos>|[<|turn>]|[user]|[\n]|[a]|[<turn|>]|[\n]|[<|turn>]|[model]|[\n]|"
               "[b]|[\xe2\x96\x81]|[c]|[<turn|>]|[\n]");
}

static void no_model_turn_no_loss(void **state)
{
    (void)state;
    assert_row("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", gemma4,
               "<bos>|<|turn>|user|\n|a|<turn|>|\n");
    assert_row("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
               "\"assistant\", \"content\": \"\"}]}",
               gemma4,
               "<bos>|<|turn>|user|\n|a|<turn|>|\n|<|turn>|model|\n|[<turn|>]|\n");
}

/* The names and roles of ShareGPT; OpenAI's weight; a list of texts; null fields. */
static void other_shapes_of_rows(void **state)
{
    (void)state;
    static const char *const ignored[] = {"name"};
    assert_row("{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, "
               "{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", "
               "\"value\": \"b\"}], \"messages\": []}",
               gemma3,
               "<bos>|<start_of_turn>|user|\n|s|\n\n|a|<end_of_turn>|\n|"
               "<start_of_turn>|model|\n|[b]|[<end_of_turn>]|\n");
    assert_row("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
               "\"text\", \"text\": \" a \"}, {\"type\": \"text\", \"text\": \"b\", "
               "\"image\": null}]}, {\"role\": \"assistant\", \"content\": \"c\", "
               "\"weight\": 0.5, \"tool_calls\": [], \"refusal\": null}], "
               "\"conversations\": []}",
               gemma4,
               "<bos>|<|turn>|user|\n|a|b|<turn|>|\n|<|turn>|model|\n|[c:0.5]|"
               "[<turn|>:0.5]|\n");
    assert_row("{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": "
               "\"Ann\"}, {\"role\": \"assistant\", \"content\": \"c\", \"weight\": "
               "0}]}",
               (struct row_chat_options){
                   .format = CHAT_GEMMA4, .ignore = ignored, .n_ignore = 1},
               "<bos>|<|turn>|user|\n|a|<turn|>|\n|<|turn>|model|\n|c|<turn|>|\n");
}

/* C11 is also test_chat.c's. C18: the loss tokens give the responses back. */
static void loss_tokens_decode_to_the_responses(void **state)
{
    (void)state;
    static const char *const responses[] = {"Paris", "a  b", "the\n\n\nend",
                                            "\xc3\xa9t\xc3\xa8 \xf0\x9f\x98\x8a",
                                            "<|turn|> user {\"x\": [1]}"};
    for (int format = CHAT_GEMMA3; format <= CHAT_GEMMA4; format++) {
        const struct row_chat_options options = {.format = (enum chat_format)format};
        const struct tokenizer *tokenizer = small[format];
        struct str wanted = {0};
        struct str decoded = {0};
        struct error err = {.message = ""};
        struct row row = {0};
        json_t *messages = json_array();
        int n_bos = 0;
        for (size_t i = 0; i < ARRAY_LENGTH(responses); i++) {
            json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user",
                                                      "content", "the model?"));
            json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "assistant",
                                                      "content", responses[i]));
            str_printf(&wanted, "%s%s", responses[i],
                       format == CHAT_GEMMA3 ? "<end_of_turn>" : "<turn|>");
        }
        json_t *object = json_pack("{s:o}", "messages", messages);
        assert_true(row_from_chat(&row, object, &options, tokenizer, &err));
        for (size_t i = 0; i < row.n; i++) {
            n_bos += row.tokens.ids[i] == tokenizer_bos(tokenizer);
            if (row.weight[i] > 0) {
                tokenizer_decode(tokenizer, &row.tokens.ids[i], 1, false, &decoded);
            }
        }
        assert_string_equal(str_text(&decoded), wanted.text);
        assert_int_equal(row.tokens.ids[0], tokenizer_bos(tokenizer));
        assert_int_equal(n_bos, 1);
        assert_int_equal(row.n, row.tokens.n);
        assert_int_equal(row.n_documents, 1);
        json_decref(object);
        row_deinit(&row);
        str_deinit(&wanted);
        str_deinit(&decoded);
    }
}

static void thoughts_that_go_are_told(void **state)
{
    (void)state;
    struct row row = {0};
    struct error err;
    const char *json = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                       "{\"role\": \"assistant\", \"content\": "
                       "\"<|channel>x<channel|>b\"}]}";
    assert_true(read_row(&row, json, &gemma4, &err));
    assert_true(row.has_lost_thought);
    assert_true(read_row(&row, json, &gemma3, &err));
    assert_false(row.has_lost_thought);
    row_deinit(&row);
}

static void broken_rows_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *message;
    } cases[] = {
        {"{}", "no field \"messages\""},
        {"{\"messages\": null}", "no field \"messages\""},
        {"{\"messages\": {}}", "messages: expected an array"},
        {"{\"messages\": []}", "no messages"},
        {"{\"messages\": [], \"conversations\": []}", "no messages"},
        {"{\"messages\": null, \"conversations\": null}", "no field \"messages\""},
        {"{\"messages\": [1], \"conversations\": [1]}", "both"},
        {"{\"conversations\": 3}", "conversations: expected an array"},
        {"{\"messages\": [3]}", "messages, message 1: expected {\"role\""},
        {"{\"messages\": [{\"role\": 3, \"content\": \"a\"}]}", "expected {\"role\""},
        {"{\"messages\": [{\"role\": \"user\"}]}",
         "message 1: content: expected a text or a list"},
        {"{\"messages\": [{\"from\": \"human\", \"value\": null}]}",
         "message 1: value: expected a text"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "part 1 of the content is of type \"image\"; lathe trains on text only"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [\"a\"]}]}",
         "part 1 of the content: expected {\"type\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
         "\"text\": \"a\", \"lang\": \"en\"}]}]}",
         "field \"lang\" is neither used nor ignored"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": \"x\"}]}",
         "message 1: field \"name\" is neither used nor ignored"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"weight\": 1}]}",
         "field \"weight\" is neither"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
         "\"assistant\", \"content\": \"b\", \"weight\": -1}]}",
         "message 2: weight: expected a number from 0 to 1e+06"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
         "\"assistant\", \"content\": \"b\", \"weight\": 1e38}]}",
         "message 2: weight: expected a number from 0 to 1e+06"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
         "\"assistant\", \"content\": \"b\", \"tool_calls\": [1]}]}",
         "field \"tool_calls\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a<bos>b\"}]}",
         "BOS token again, as token 5"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
         "\"user\", \"content\": \"b\"}]}",
         "message 2: role \"user\" follows user"},
    };
    struct row row = {0};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct error err = {.message = ""};
        assert_false(read_row(&row, cases[i].json, &gemma4, &err));
        if (strstr(err.message, cases[i].message) == NULL) {
            fail_msg("%s: '%s' does not say '%s'", cases[i].json, err.message,
                     cases[i].message);
        }
        assert_int_equal(err.kind, ERROR_DATA);
    }
    row_deinit(&row);
}

static void a_format_needs_its_marks(void **state)
{
    (void)state;
    struct row row = {0};
    struct error err = {.message = ""};
    json_t *object = json_loads(TWO_TURNS, 0, NULL);
    assert_false(row_from_chat(&row, object, &gemma3, small[CHAT_GEMMA4], &err));
    assert_non_null(strstr(err.message, "no turn marks of the gemma3 format"));
    assert_non_null(strstr(err.message, "data.chat_format gemma4"));
    assert_int_equal(err.kind, ERROR_USAGE);
    json_decref(object);
    row_deinit(&row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_on_model_turns),
        cmocka_unit_test(no_model_turn_no_loss),
        cmocka_unit_test(other_shapes_of_rows),
        cmocka_unit_test(loss_tokens_decode_to_the_responses),
        cmocka_unit_test(thoughts_that_go_are_told),
        cmocka_unit_test(broken_rows_are_named),
        cmocka_unit_test(a_format_needs_its_marks),
    };
    return cmocka_run_group_tests(tests, make_small, destroy_small);
}
