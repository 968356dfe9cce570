/*
 * GGUF vocabularies written as tokenizer.json: a small one, whose two forms must give the
 * same ids, and that of Gemma 3 (LATHE_TEST_ALL=1), which must be the published file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "support/piece_build.h"
#include "text/tokenizer.h"
#include "text/tokenizer_write.h"

#define SPACE "\xe2\x96\x81"

static const char model_path[] = "models/gemma-3-270m.gguf";

enum { NORMAL = PIECE_BUILD_NORMAL, USER = PIECE_BUILD_USER };

/* The file of a build, opened over *bytes. */
static struct gguf *open_build(struct gguf_build *build, struct str *bytes)
{
    struct error err;
    gguf_build_finish(build, bytes);
    gguf_build_deinit(build);
    struct gguf *gguf = gguf_view(bytes->text, bytes->length, "t.gguf", &err);
    if (gguf == NULL) {
        fail_msg("%s", err.message);
    }
    return gguf;
}

/* What the written files are read as. */
static struct tokenizer *rewrite(const struct gguf *gguf, struct str *json)
{
    struct error err;
    struct str config = {0};
    if (!tokenizer_write_json(gguf, json, &err) ||
        !tokenizer_write_config(gguf, &config, &err)) {
        fail_msg("%s", err.message);
    }
    struct tokenizer *tokenizer = tokenizer_parse(json->text, json->length, config.text,
                                                  config.length, "written", &err);
    if (tokenizer == NULL) {
        fail_msg("%s", err.message);
    }
    str_deinit(&config);
    return tokenizer;
}

static void assert_same_ids(const struct tokenizer *a, const struct tokenizer *b,
                            const char *text)
{
    struct token_list x = {0};
    struct token_list y = {0};
    struct str back = {0};
    tokenizer_encode(a, text, strlen(text), true, &x);
    tokenizer_encode(b, text, strlen(text), true, &y);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.ids, y.ids, x.n * sizeof(x.ids[0]));
    struct str other = {0};
    tokenizer_decode(a, x.ids, x.n, true, &back);
    tokenizer_decode(b, y.ids, y.n, true, &other);
    assert_string_equal(str_text(&back), str_text(&other));
    str_deinit(&other);
    str_deinit(&back);
    token_list_deinit(&x);
    token_list_deinit(&y);
}

static void check_same(struct gguf_build *build)
{
    static const char *const texts[] = {
        "",      "a",        "aba",           "abab", "b a",    "a  b",
        "a\nb",  "\xc3\xa9", "a</s>b",        "z",    " a",     "babab abab  aba",
        "a   b", "    ",     "ab \n\n  b a ", "<s>",  "<unk>a", "a    a     b"};
    struct str bytes = {0};
    struct str json = {0};
    struct error err;
    struct gguf *gguf = open_build(build, &bytes);
    struct tokenizer *source = tokenizer_read_gguf(gguf, &err);
    assert_non_null(source);
    struct tokenizer *written = rewrite(gguf, &json);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_same_ids(source, written, texts[i]);
    }
    assert_int_equal(tokenizer_bos(written), tokenizer_bos(source));
    assert_int_equal(tokenizer_eos(written), tokenizer_eos(source));
    assert_int_equal(tokenizer_pad(written), tokenizer_pad(source));
    assert_int_equal(tokenizer_adds_bos(written), tokenizer_adds_bos(source));
    assert_int_equal(tokenizer_n_tokens(written), tokenizer_n_tokens(source));
    for (int32_t id = 0; id < tokenizer_n_tokens(source); id++) {
        assert_int_equal(tokenizer_is_special(written, id),
                         tokenizer_is_special(source, id));
    }
    tokenizer_destroy(written);
    tokenizer_destroy(source);
    gguf_close(gguf);
    str_deinit(&json);
    str_deinit(&bytes);
}

static void both_forms_give_the_same_ids(void **state)
{
    (void)state;
    struct gguf_build build = {0};
    /* With and without the space in front, BOS, EOS and padding. */
    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
    check_same(&build);
    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
    piece_build_flag(&build, "tokenizer.ggml.add_space_prefix", false);
    gguf_build_integer(&build, "tokenizer.ggml.padding_token_id", 0);
    check_same(&build);
    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
    piece_build_flag(&build, "tokenizer.ggml.add_bos_token", false);
    piece_build_flag(&build, "tokenizer.ggml.add_eos_token", true);
    check_same(&build);
}

static const struct piece_build gemma[] = {
    {"<pad>", -1000, PIECE_BUILD_CONTROL},
    {"<eos>", -1000, PIECE_BUILD_CONTROL},
    {"<bos>", -1000, PIECE_BUILD_CONTROL},
    {"<unk>", -1000, PIECE_BUILD_UNKNOWN},
    {"<mask>", -1000, PIECE_BUILD_CONTROL},
    {"\n", -1000, USER},
    {"\n\n", -1000, USER},
    {"  ", -1000, USER},
    {"   ", -1000, USER},
    {"    ", -1000, USER},
    {SPACE "a", 0, NORMAL},
    {"ab", -1, NORMAL},
    {SPACE "ab", -2, NORMAL},
    {"a", -3, NORMAL},
    {"b", -4, NORMAL},
    {SPACE, -5, NORMAL},
    {"\x01\"", -6, NORMAL},
};

/* As Gemma has it: runs of spaces become runs of U+2581 whose merges come first. */
static void runs_of_spaces_become_merges(void **state)
{
    (void)state;
    struct gguf_build build = {0};
    struct str bytes = {0};
    struct str json = {0};
    struct error err;
    piece_build_add(&build, gemma, ARRAY_LENGTH(gemma), ARRAY_LENGTH(gemma));
    piece_build_flag(&build, "tokenizer.ggml.add_space_prefix", false);
    gguf_build_integer(&build, "tokenizer.ggml.bos_token_id", 2);
    gguf_build_integer(&build, "tokenizer.ggml.eos_token_id", 1);
    gguf_build_integer(&build, "tokenizer.ggml.unknown_token_id", 3);
    struct gguf *gguf = open_build(&build, &bytes);
    struct tokenizer *written = rewrite(gguf, &json);
    assert_string_equal(tokenizer_token_text(written, 8), SPACE SPACE SPACE);
    json_t *root = json_parse(json.text, json.length, "written", &err);
    assert_non_null(root);
    /* Added: five special ones and the line ends. */
    assert_int_equal(json_array_size(json_object_get(root, "added_tokens")), 7);
    json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    struct str seen = {0};
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *pair = json_array_get(merges, i);
        str_printf(&seen, "%s+%s ", json_string_value(json_array_get(pair, 0)),
                   json_string_value(json_array_get(pair, 1)));
    }
    assert_string_equal(str_text(&seen),
                        "\n+\n "
                        "\xe2\x96\x81+\xe2\x96\x81 "
                        "\xe2\x96\x81\xe2\x96\x81+\xe2\x96\x81 "
                        "\xe2\x96\x81+\xe2\x96\x81\xe2\x96\x81 "
                        "\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81+\xe2\x96\x81 "
                        "\xe2\x96\x81\xe2\x96\x81+\xe2\x96\x81\xe2\x96\x81 "
                        "\xe2\x96\x81+\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81 "
                        "\xe2\x96\x81+a a+b \xe2\x96\x81"
                        "a+b \xe2\x96\x81+ab ");
    str_deinit(&seen);
    json_decref(root);
    struct tokenizer *source = tokenizer_read_gguf(gguf, &err);
    static const char *const texts[] = {"a    ab", "ab ab  ab   ab", "\n\n\n a", "  "};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_same_ids(source, written, texts[i]);
    }
    tokenizer_destroy(source);
    tokenizer_destroy(written);
    gguf_close(gguf);
    str_deinit(&json);
    str_deinit(&bytes);
}

static void names_special_tokens_and_template(void **state)
{
    (void)state;
    struct gguf_build build = {0};
    struct str bytes = {0};
    struct str config = {0};
    struct error err;
    piece_build_add(&build, gemma, ARRAY_LENGTH(gemma), ARRAY_LENGTH(gemma));
    piece_build_flag(&build, "tokenizer.ggml.add_space_prefix", false);
    gguf_build_integer(&build, "tokenizer.ggml.bos_token_id", 2);
    gguf_build_integer(&build, "tokenizer.ggml.eos_token_id", 1);
    gguf_build_string(&build, "tokenizer.chat_template", "{{ bos_token }}\n\"x\"");
    struct gguf *gguf = open_build(&build, &bytes);
    assert_true(tokenizer_write_config(gguf, &config, &err));
    static const char *const lines[] = {
        "\"add_bos_token\": true",
        "\"bos_token\": \"<bos>\"",
        "\"eos_token\": \"<eos>\"",
        "\"chat_template\": \"{{ bos_token }}\\n\\\"x\\\"\"",
        "\"tokenizer_class\": \"GemmaTokenizer\"",
        "\"model_max_length\": 1000000000000000019884624838656"};
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        if (strstr(config.text, lines[i]) == NULL) {
            fail_msg("no %s in %s", lines[i], config.text);
        }
    }
    assert_null(strstr(config.text, "pad_token"));
    gguf_close(gguf);
    str_deinit(&config);
    str_deinit(&bytes);
}

static void refuses(void **state)
{
    (void)state;
    const struct piece_build broken[] = {{"a", 0, NORMAL}, {"\xff", 0, NORMAL}};
    struct gguf_build build = {0};
    struct str bytes = {0};
    struct str out = {0};
    struct error err;
    piece_build_add(&build, broken, 2, 2);
    struct gguf *gguf = open_build(&build, &bytes);
    assert_false(tokenizer_write_json(gguf, &out, &err));
    assert_non_null(strstr(err.message, "token 1 is not UTF-8"));
    assert_int_equal(err.kind, ERROR_DATA);
    assert_false(tokenizer_write_folder(gguf, "/proc/none", &err));
    gguf_close(gguf);
    str_deinit(&bytes);
    bytes = (struct str){0};
    piece_build_add(&build, broken, 1, 1);
    gguf_build_string(&build, "tokenizer.chat_template", "{{ \xc3 }}");
    gguf = open_build(&build, &bytes);
    assert_false(tokenizer_write_config(gguf, &out, &err));
    assert_non_null(strstr(err.message, "tokenizer.chat_template: not UTF-8"));
    gguf_close(gguf);
    str_deinit(&out);
    str_deinit(&bytes);
}

/* The golden vectors: the ids of the published tokenizer. */
static void check_vectors(const struct tokenizer *tokenizer)
{
    json_t *root = json_load_file("tests/golden/tokenizer-gemma3/vectors.json",
                                  JSON_ALLOW_NUL, NULL);
    assert_non_null(root);
    const json_t *vectors = json_object_get(root, "vectors");
    assert_true(json_array_size(vectors) >= 40);
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        const json_t *vector = json_array_get(vectors, i);
        const json_t *text = json_object_get(vector, "text");
        const json_t *ids = json_object_get(vector, "ids_with_bos");
        struct token_list list = {0};
        tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                         true, &list);
        assert_int_equal(list.n, json_array_size(ids));
        for (size_t k = 0; k < list.n; k++) {
            assert_int_equal(list.ids[k], json_integer_value(json_array_get(ids, k)));
        }
        token_list_deinit(&list);
    }
    json_decref(root);
}

static void gemma_is_the_published_file(void **state)
{
    (void)state;
    if (getenv("LATHE_TEST_ALL") == NULL || !file_exists(model_path)) {
        print_message("# skipped: needs %s and LATHE_TEST_ALL=1\n", model_path);
        skip();
    }
    struct error err;
    struct str json = {0};
    struct gguf *gguf = gguf_open(model_path, &err);
    assert_non_null(gguf);
    struct tokenizer *written = rewrite(gguf, &json);
    check_vectors(written);
    /* The file as tokenizers 0.23.3 writes it (golden/README.md). */
    assert_int_equal(json.length, 33371397);
    const XXH128_hash_t hash = XXH3_128bits(json.text, json.length);
    assert_true(hash.high64 == 0x2dc8d1a0b5351619 && hash.low64 == 0x8185c690dab7adab);
    tokenizer_destroy(written);
    gguf_close(gguf);
    str_deinit(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_give_the_same_ids),
        cmocka_unit_test(runs_of_spaces_become_merges),
        cmocka_unit_test(names_special_tokens_and_template),
        cmocka_unit_test(refuses),
        cmocka_unit_test(gemma_is_the_published_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
