/*
 * Each part of tokenizer.json that is taken, and each that is refused by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "text/tokenizer.h"

/* A file whose parts can be replaced one by one. */
struct parts {
    const char *extra; /* further sections, with a comma behind */
    const char *added_tokens;
    const char *normalizer;
    const char *pre_tokenizer;
    const char *post_processor;
    const char *decoder;
    const char *model; /* fields before vocab */
    const char *vocab;
    const char *merges;
    const char *config;
};

static struct parts usual(void)
{
    return (struct parts){
        .extra = "\"version\": \"1.0\", ",
        .added_tokens = "{\"id\": 0, \"content\": \"<s>\", \"special\": true}",
        .normalizer = "null",
        .pre_tokenizer = "null",
        .post_processor = "null",
        .decoder = "{\"type\": \"Fuse\"}",
        .model = "\"type\": \"BPE\", ",
        .vocab = "\"<s>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, \"_\": 4, \"_a\": 5",
        .merges = "[\"a\", \"b\"], [\"_\", \"a\"]",
        .config = NULL,
    };
}

static struct tokenizer *parse(const struct parts *parts, struct error *err)
{
    struct str json = {0};
    str_printf(
        &json,
        "{%s\"added_tokens\": [%s], \"normalizer\": %s, \"pre_tokenizer\": %s, "
        "\"post_processor\": %s, \"decoder\": %s,\n\"model\": {%s\"vocab\": {%s}, "
        "\"merges\": [%s]}}",
        parts->extra, parts->added_tokens, parts->normalizer, parts->pre_tokenizer,
        parts->post_processor, parts->decoder, parts->model, parts->vocab,
        parts->merges);
    char *exact = malloc(json.length);
    memcpy(exact, json.text, json.length);
    struct tokenizer *tokenizer = tokenizer_parse(
        exact, json.length, parts->config,
        parts->config == NULL ? 0 : strlen(parts->config), "t.json", err);
    free(exact);
    str_deinit(&json);
    return tokenizer;
}

/* Ids of "text", as digits. */
static void assert_ids(const struct parts *parts, const char *text, const char *wanted)
{
    struct error err = {.message = ""};
    struct tokenizer *tokenizer = parse(parts, &err);
    if (tokenizer == NULL) {
        fail_msg("%s", err.message);
    }
    struct token_list list = {0};
    struct str ids = {0};
    tokenizer_encode(tokenizer, text, strlen(text), true, &list);
    for (size_t i = 0; i < list.n; i++) {
        str_printf(&ids, "%s%d", i > 0 ? " " : "", list.ids[i]);
    }
    assert_string_equal(str_text(&ids), wanted);
    str_deinit(&ids);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

static void assert_refused(const struct parts *parts, const char *why)
{
    struct error err = {.message = ""};
    struct tokenizer *tokenizer = parse(parts, &err);
    assert_null(tokenizer);
    assert_int_equal(err.kind, ERROR_DATA);
    if (strstr(err.message, why) == NULL || strchr(err.message, '\n') != NULL) {
        fail_msg("\"%s\" does not say \"%s\" in one line", err.message, why);
    }
}

static void merges_in_both_spellings(void **state)
{
    (void)state;
    struct parts parts = usual();
    assert_ids(&parts, "abba_ab", "3 2 1 4 3");
    parts.merges = "\"a b\", \"_ a\"";
    assert_ids(&parts, "abba_ab", "3 2 1 4 3");
    parts.merges = "[\"_\", \"a\"], \"a b\"";
    assert_ids(&parts, "abba_ab", "3 2 1 5 2");
    parts.merges = "";
    assert_ids(&parts, "ab", "1 2");
    parts.model = "\"type\": \"BPE\", \"ignore_merges\": true, ";
    assert_ids(&parts, "ab", "3");
    assert_ids(&parts, "aba", "1 2 1");
}

static void normalizers(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
                       "\"content\": \"_\"}";
    assert_ids(&parts, "b a", "2 5");
    parts.normalizer =
        "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
        "\"prepend\": \"_\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" "
        "\"}, "
        "\"content\": \"_\"}]}";
    assert_ids(&parts, "a a", "5 5");
    assert_ids(&parts, "", "");
    assert_ids(&parts, "a<s>a", "5 0 5"); /* each stretch gets the prefix */
    parts.normalizer = "{\"type\": \"NFKC\"}";
    assert_refused(&parts, "t.json: normalizer \"NFKC\" is not supported");
    parts.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" +\"}, "
                       "\"content\": \"_\"}";
    assert_refused(&parts, "normalizer Replace \"Regex\" is not supported");
    parts.normalizer = "{\"type\": \"Sequence\", \"normalizers\": [3]}";
    assert_refused(&parts, "normalizer: expected");
    parts.normalizer = "5";
    assert_refused(&parts, "normalizer: expected an object with a \"type\"");
}

static void pre_tokenizers(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, "
                          "\"behavior\": \"Isolated\", \"invert\": false}";
    assert_ids(&parts, "_ab", "4 1 2");
    parts.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"String\": \"_\"}, "
                          "\"behavior\": \"Removed\", \"invert\": false}";
    assert_ids(&parts, "_ab", "3");
    parts.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"String\": \"_\"}, "
                          "\"behavior\": \"Sideways\", \"invert\": false}";
    assert_refused(&parts, "\"Sideways\" is not supported");
    parts.pre_tokenizer = "{\"type\": \"ByteLevel\"}";
    assert_refused(&parts, "pre_tokenizer \"ByteLevel\" is not supported");
}

static void post_processors(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.post_processor =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
        "{\"SpecialToken\": {\"id\": \"E\", \"type_id\": 0}}], \"pair\": [], "
        "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [0]}, \"E\": "
        "{\"ids\": "
        "[1, 2]}}}";
    assert_ids(&parts, "ab", "0 3 1 2");
    parts.config = "{\"add_bos_token\": false, \"bos_token\": \"<s>\"}";
    assert_ids(&parts, "ab", "3 1 2");
    parts.config = NULL;
    parts.post_processor =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<s>\"}}], \"special_tokens\": {\"<s>\": {\"ids\": [0]}}}";
    assert_refused(&parts, "the sequence A once");
    parts.post_processor =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<s>\": "
        "{\"ids\": [77]}}}";
    assert_refused(&parts, "ids of the vocabulary");
    parts.post_processor = "{\"type\": \"ByteLevel\"}";
    assert_refused(&parts, "post_processor \"ByteLevel\" is not supported");
}

static void decoders(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.decoder = "{\"type\": \"Metaspace\"}";
    assert_refused(&parts, "decoder \"Metaspace\" is not supported");
    parts.decoder = "null";
    assert_refused(&parts, "decoder: expected");
    parts.decoder =
        "{\"type\": \"Strip\", \"content\": \"\", \"start\": 1, \"stop\": 0}";
    assert_refused(&parts, "decoder Strip: expected a \"content\"");
}

static void added_tokens(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.added_tokens = "{\"id\": 9, \"content\": \"bb\", \"special\": false}";
    assert_ids(&parts, "abbb", "1 9 2");
    parts.added_tokens = "{\"id\": 9, \"content\": \"b\xc3\xa9\", \"special\": false}";
    assert_ids(&parts, "ab\xc3\xa9", "1 9");
    parts.added_tokens = "{\"id\": 8, \"content\": \"a\", \"special\": false}";
    assert_refused(&parts, "added token \"a\" has id 8 here and 1 in the vocabulary");
    parts.added_tokens = "{\"id\": 9, \"content\": \"c\", \"lstrip\": true}";
    assert_refused(&parts, "added token \"c\": \"lstrip\" is not supported");
    parts.added_tokens = "{\"id\": \"x\", \"content\": \"c\"}";
    assert_refused(&parts, "objects with \"id\" and \"content\"");
    parts.added_tokens = "{\"id\": 3, \"content\": \"c\"}";
    assert_refused(&parts, "token id 3 is given twice");
}

/* normalized: true means found in what the normaliser gives. */
static void normalized_added_tokens(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
                       "\"content\": \"_\"}";
    parts.added_tokens = "{\"id\": 9, \"content\": \"a b\", \"normalized\": true}";
    assert_ids(&parts, "ba b", "2 9");
    assert_ids(&parts, "ba_b", "2 9");
    parts.added_tokens = "{\"id\": 9, \"content\": \"a b\", \"normalized\": false}";
    assert_ids(&parts, "ba b", "2 9");
    assert_ids(&parts, "ba_b", "2 1 4 2");
}

static void models(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.model = "\"type\": \"Unigram\", ";
    assert_refused(&parts, "model type \"Unigram\" is not supported");
    parts.model = "\"type\": \"BPE\", \"dropout\": 0.1, ";
    assert_refused(&parts, "model \"dropout\" is not supported");
    parts.model = "\"type\": \"BPE\", \"end_of_word_suffix\": \"</w>\", ";
    assert_refused(&parts, "\"end_of_word_suffix\" is not supported");
    parts.model = "\"type\": \"BPE\", \"colour\": 1, ";
    assert_refused(&parts, "model field \"colour\" is not supported");
    parts.model = "\"type\": \"BPE\", \"type\": \"BPE\", ";
    assert_refused(&parts, "\"type\" is given twice");
    parts = usual();
    parts.vocab = "\"a\": 1, \"b\": 1";
    assert_refused(&parts, "vocab: token id 1 is given twice");
    parts.vocab = "\"a\": 1, \"a\": 2";
    assert_refused(&parts, "tokens 1 and 2 have the same text \"a\"");
    parts.vocab = "\"a\": 99999999";
    assert_refused(&parts, "token id 99999999 is not in");
    parts.vocab = "\"a\": 1.5";
    assert_refused(&parts, "expected an integer");
    parts = usual();
    parts.merges = "[\"a\", \"c\"]";
    assert_refused(&parts, "t.json:2:");
    assert_refused(&parts, "merge 0, \"a\" and \"c\"");
    parts.merges = "[\"a\"]";
    assert_refused(&parts, "a merge is not two texts");
    parts.merges = "[\"a\", \"b\", \"c\"]";
    assert_refused(&parts, "a merge is not two texts");
    parts.merges = "\"ab\"";
    assert_refused(&parts, "a merge is not two texts and a space");
    parts.merges = "7";
    assert_refused(&parts, "expected '['");
}

static void sections(void **state)
{
    (void)state;
    struct parts parts = usual();
    parts.extra = "\"surprise\": 1, ";
    assert_refused(&parts, "section \"surprise\" is not supported");
    parts.extra = "\"decoder\": null, ";
    assert_refused(&parts, "\"decoder\" is given twice");
    struct error err = {.message = ""};
    assert_null(tokenizer_parse("{}", 2, NULL, 0, "t.json", &err));
    assert_non_null(strstr(err.message, "model: expected"));
    assert_null(tokenizer_parse("{} x", 4, NULL, 0, "t.json", &err));
    assert_non_null(strstr(err.message, "text after the end"));
    assert_null(tokenizer_parse("", 0, NULL, 0, "t.json", &err));
    assert_non_null(strstr(err.message, "t.json:1:1: expected '{'"));
}

static void config_names_the_specials(void **state)
{
    (void)state;
    struct parts parts = usual();
    struct error err = {.message = ""};
    parts.config =
        "{\"model_max_length\": 1000000000000000019884624838656, \"bos_token\": "
        "{\"content\": \"a\"}, \"eos_token\": \"b\", \"add_bos_token\": true, "
        "\"pad_token\": \"none\", \"add_eos_token\": true, \"chat_template\": \"x\"}";
    assert_ids(&parts, "ab", "1 3 2");
    struct tokenizer *tokenizer = parse(&parts, &err);
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), 2);
    assert_int_equal(tokenizer_pad(tokenizer), -1);
    tokenizer_destroy(tokenizer);
    parts.config = NULL;
    tokenizer = parse(&parts, &err);
    assert_int_equal(tokenizer_bos(tokenizer), 0); /* "<s>" is a usual name */
    assert_int_equal(tokenizer_eos(tokenizer), -1);
    tokenizer_destroy(tokenizer);
    parts.config = "{\"bos_token\": }";
    assert_refused(&parts, "tokenizer_config.json:1:");
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    assert_null(tokenizer_read_folder("tests/no-such-folder", &err));
    assert_non_null(strstr(err.message, "tests/no-such-folder/tokenizer.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_in_both_spellings),
        cmocka_unit_test(normalizers),
        cmocka_unit_test(pre_tokenizers),
        cmocka_unit_test(post_processors),
        cmocka_unit_test(decoders),
        cmocka_unit_test(added_tokens),
        cmocka_unit_test(normalized_added_tokens),
        cmocka_unit_test(models),
        cmocka_unit_test(sections),
        cmocka_unit_test(config_names_the_specials),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
