/*
 * Conversations against what jinja makes of the published templates, byte for byte (D5).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "support/tokenizer_build.h"
#include "text/chat.h"
#include "text/token_list.h"
#include "text/tokenizer.h"

enum { MAX_MESSAGES = 8, MAX_PARTS = 4 };

/* A conversation of the golden files; texts are borrowed from the JSON. */
struct talk {
    struct chat_message messages[MAX_MESSAGES];
    struct chat_part parts[MAX_MESSAGES][MAX_PARTS];
    struct chat_span spans[MAX_MESSAGES];
    size_t n;
};

static struct chat_part part_of(const json_t *text)
{
    return (struct chat_part){json_string_value(text), json_string_length(text)};
}

static void read_talk(const json_t *messages, struct talk *talk)
{
    *talk = (struct talk){.n = json_array_size(messages)};
    assert_true(talk->n <= MAX_MESSAGES);
    for (size_t i = 0; i < talk->n; i++) {
        const json_t *message = json_array_get(messages, i);
        const json_t *content = json_object_get(message, "content");
        struct chat_message *target = &talk->messages[i];
        target->role = json_string_value(json_object_get(message, "role"));
        if (json_is_string(content)) {
            target->text = json_string_value(content);
            target->length = json_string_length(content);
            continue;
        }
        target->parts = talk->parts[i];
        target->n_parts = json_array_size(content);
        assert_true(target->n_parts <= MAX_PARTS);
        for (size_t k = 0; k < target->n_parts; k++) {
            talk->parts[i][k] =
                part_of(json_object_get(json_array_get(content, k), "text"));
        }
    }
}

/* One case in one format. The rendered text may lack the <bos> of the golden one. */
static void check_case(const json_t *row, enum chat_format format)
{
    char error_key[32];
    struct talk talk;
    struct error err = {.message = ""};
    struct str out = {0};
    const char *name = chat_format_name(format);
    const json_t *wanted = json_object_get(row, name);
    snprintf(error_key, sizeof(error_key), "%s_error", name);
    if (wanted == NULL && json_object_get(row, error_key) == NULL) {
        return; /* the template makes nothing sensible of it */
    }
    read_talk(json_object_get(row, "messages"), &talk);
    str_add(&out, "before"); /* the text is appended, and spans count from the start */
    const bool done =
        chat_render(format, talk.messages, talk.n,
                    json_is_true(json_object_get(row, "add_generation_prompt")), &out,
                    talk.spans, &err);
    if (wanted == NULL) {
        assert_false(done);
        assert_non_null(strstr(err.message, "message "));
    } else {
        const size_t skip = str_starts_with(json_string_value(wanted), "<bos>") ? 5 : 0;
        if (!done) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(out.length - 6, json_string_length(wanted) - skip);
        assert_memory_equal(out.text + 6, json_string_value(wanted) + skip,
                            out.length - 6);
    }
    str_deinit(&out);
}

static void check_file(const char *path, size_t n_wanted)
{
    json_error_t fault;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &fault);
    if (root == NULL) {
        fail_msg("%s: %s", path, fault.text);
    }
    const json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), n_wanted);
    for (size_t i = 0; i < n_wanted; i++) {
        check_case(json_array_get(cases, i), CHAT_GEMMA3);
        check_case(json_array_get(cases, i), CHAT_GEMMA4);
    }
    json_decref(root);
}

static void equals_the_published_templates(void **state)
{
    (void)state;
    check_file("tests/golden/chat/rendered.json", 26);
    check_file("tests/golden/chat/more.json", 18);
}

static struct chat_message message(const char *role, const char *text)
{
    return (struct chat_message){.role = role, .text = text, .length = strlen(text)};
}

/* What stands between from and to, for each message; "" for those of others. */
static void spans_hold_the_response_and_its_end(void **state)
{
    (void)state;
    const struct chat_message talk[] = {
        message("system", "s"),
        message("user", "a"),
        message("assistant", " b "),
        message("user", "c"),
        message("model", "<|channel>x<channel|>d"),
    };
    static const char *const wanted[2][5] = {
        {"", "", "b<end_of_turn>", "", "<|channel>x<channel|>d<end_of_turn>"},
        {"", "", "b<turn|>", "", "d<turn|>"},
    };
    for (int format = CHAT_GEMMA3; format <= CHAT_GEMMA4; format++) {
        struct chat_span spans[5];
        struct str out = {0};
        struct error err = {.message = ""};
        assert_true(
            chat_render((enum chat_format)format, talk, 5, false, &out, spans, &err));
        for (size_t i = 0; i < 5; i++) {
            char text[64];
            snprintf(text, sizeof(text), "%.*s", (int)(spans[i].to - spans[i].from),
                     out.text + spans[i].from);
            assert_string_equal(text, wanted[format][i]);
            assert_int_equal(spans[i].has_lost_thought,
                             format == CHAT_GEMMA4 && i == 4);
        }
        str_deinit(&out);
    }
}

static void assert_refused(enum chat_format format, const struct chat_message *talk,
                           size_t n, const char *wanted)
{
    struct str out = {0};
    struct error err = {.message = ""};
    assert_false(chat_render(format, talk, n, false, &out, NULL, &err));
    if (strstr(err.message, wanted) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, wanted);
    }
    assert_int_equal(err.kind, ERROR_DATA);
    str_deinit(&out);
}

/* Also what the templates would render without a sense. */
static void refuses_by_number_and_role(void **state)
{
    (void)state;
    const struct chat_message tool[] = {message("user", "a"), message("tool", "b")};
    const struct chat_message late[] = {message("user", "a"), message("system", "b")};
    const struct chat_message developer[] = {message("developer", "a"),
                                             message("user", "b")};
    const struct chat_message twice[] = {
        message("user", "a"), message("assistant", "b"), message("model", "c")};
    const struct chat_part two[] = {{"a", 1}, {"b", 1}};
    const struct chat_message parts[] = {{.role = "system", .parts = two, .n_parts = 2},
                                         message("user", "b")};
    assert_refused(CHAT_GEMMA3, NULL, 0, "no messages");
    assert_refused(CHAT_GEMMA3, tool, 2, "message 2: role \"tool\"");
    assert_refused(CHAT_GEMMA4, tool, 2, "message 2: role \"tool\"");
    assert_refused(CHAT_GEMMA4, late, 2,
                   "message 2: only the first one may have role \"system\"");
    assert_refused(CHAT_GEMMA3, developer, 2, "message 1: role \"developer\"");
    assert_refused(CHAT_GEMMA4, twice, 3,
                   "message 3: role \"model\" follows assistant: expected \"user\"");
    assert_refused(CHAT_GEMMA3, twice + 1, 1, "begins the conversation");
    assert_refused(CHAT_GEMMA3, parts, 2, "2 parts");
    assert_refused(CHAT_GEMMA3, parts, 1, "one text");
    assert_refused(CHAT_GEMMA3, developer + 1, 0, "no messages");
    const struct chat_message alone[] = {message("system", "a")};
    assert_refused(CHAT_GEMMA3, alone, 1, "needs a user message");
}

/* --- tokens ----------------------------------------------------------------------- */

static struct tokenizer *build(bool has_gemma3, bool has_gemma4, const char *config)
{
    struct tokenizer_build parts = {0};
    tokenizer_build_begin(&parts);
    if (has_gemma3) {
        tokenizer_build_added(&parts, "<start_of_turn>", true);
        tokenizer_build_added(&parts, "<end_of_turn>", true);
    }
    if (has_gemma4) {
        tokenizer_build_added(&parts, "<|turn>", true);
        tokenizer_build_added(&parts, "<turn|>", true);
    }
    return tokenizer_build_finish(&parts, config);
}

static void the_format_of_a_vocabulary(void **state)
{
    (void)state;
    enum chat_format format = CHAT_GEMMA4;
    struct tokenizer *none = build(false, false, NULL);
    struct tokenizer *three = build(true, false, NULL);
    struct tokenizer *four = build(false, true, NULL);
    assert_false(chat_format_of_tokenizer(none, &format));
    assert_int_equal(chat_end_of_turn(CHAT_GEMMA3, none), -1);
    assert_true(chat_format_of_tokenizer(three, &format));
    assert_int_equal(format, CHAT_GEMMA3);
    assert_int_equal(chat_end_of_turn(CHAT_GEMMA3, three),
                     tokenizer_id_of(three, "<end_of_turn>"));
    assert_int_equal(chat_end_of_turn(CHAT_GEMMA4, three), -1);
    assert_true(chat_format_of_tokenizer(four, &format));
    assert_int_equal(format, CHAT_GEMMA4);
    assert_int_equal(chat_end_of_turn(CHAT_GEMMA4, four),
                     tokenizer_id_of(four, "<turn|>"));
    assert_string_equal(chat_format_name(format), "gemma4");
    tokenizer_destroy(none);
    tokenizer_destroy(three);
    tokenizer_destroy(four);
}

/* C11: one BOS, whether or not the tokenizer adds one by itself. */
static void one_bos_in_front(void **state)
{
    (void)state;
    static const char *const configs[] = {NULL, "{\"add_bos_token\": false}"};
    for (size_t i = 0; i < ARRAY_LENGTH(configs); i++) {
        struct tokenizer *tokenizer = build(true, false, configs[i]);
        struct token_list list = {0};
        struct error err = {.message = ""};
        assert_int_equal(tokenizer_adds_bos(tokenizer), configs[i] == NULL);
        assert_true(chat_encode(tokenizer, "<start_of_turn>A", 16, &list, &err));
        assert_int_equal(list.n, 3);
        assert_int_equal(list.ids[0], tokenizer_bos(tokenizer));
        assert_int_equal(list.ids[1], tokenizer_id_of(tokenizer, "<start_of_turn>"));
        assert_int_equal(list.starts[1], 0);
        assert_int_equal(list.starts[2], 15);
        assert_false(chat_encode(tokenizer, "<bos>A", 6, &list, &err));
        assert_non_null(strstr(err.message, "BOS token again, as token 1"));
        token_list_deinit(&list);
        tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_published_templates),
        cmocka_unit_test(spans_hold_the_response_and_its_end),
        cmocka_unit_test(refuses_by_number_and_role),
        cmocka_unit_test(the_format_of_a_vocabulary),
        cmocka_unit_test(one_bos_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
