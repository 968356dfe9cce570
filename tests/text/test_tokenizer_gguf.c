/*
 * A small "llama" vocabulary: merging by score, real spaces in user-defined pieces,
 * prefixes; and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "support/gguf_build.h"
#include "text/tokenizer.h"

#define SPACE "\xe2\x96\x81"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, BYTE = 6 };
enum {
    KEY_U32 = 4,
    KEY_I32 = 5,
    KEY_F32 = 6,
    KEY_BOOL = 7,
    KEY_STRING = 8,
    KEY_ARRAY = 9
};

struct piece {
    const char *text;
    float score;
    uint32_t type;
};

static const struct piece usual[] = {
    {"<unk>", 0, UNKNOWN}, {"<s>", 0, CONTROL},      {"</s>", 0, CONTROL},
    {"<0xC3>", 0, BYTE},   {"<0xA9>", 0, BYTE},      {SPACE, -1, NORMAL},
    {"a", -2, NORMAL},     {"b", -3, NORMAL},        {"ab", -5, NORMAL},
    {"ba", -4, NORMAL},    {"  ", -9, USER},         {SPACE "a", -6, NORMAL},
    {"aba", -7, NORMAL},   {SPACE SPACE, 0, NORMAL}, {"\n", -8, USER},
};

static void add_array(struct gguf_build *build, const char *key, uint32_t type,
                      size_t n)
{
    gguf_build_key(build, key, KEY_ARRAY);
    gguf_build_u32(&build->keys, type);
    gguf_build_u64(&build->keys, n);
}

static void add_pieces(struct gguf_build *build, const struct piece *pieces, size_t n,
                       size_t n_scores)
{
    gguf_build_string(build, "tokenizer.ggml.model", "llama");
    add_array(build, "tokenizer.ggml.tokens", KEY_STRING, n);
    for (size_t i = 0; i < n; i++) {
        gguf_build_text(&build->keys, pieces[i].text);
    }
    add_array(build, "tokenizer.ggml.scores", KEY_F32, n_scores);
    for (size_t i = 0; i < n_scores; i++) {
        uint32_t bits;
        memcpy(&bits, &pieces[i].score, sizeof(bits));
        gguf_build_u32(&build->keys, bits);
    }
    add_array(build, "tokenizer.ggml.token_type", KEY_I32, n);
    for (size_t i = 0; i < n; i++) {
        gguf_build_u32(&build->keys, pieces[i].type);
    }
}

static void add_flag(struct gguf_build *build, const char *key, bool flag)
{
    gguf_build_key(build, key, KEY_BOOL);
    str_add_char(&build->keys, flag ? 1 : 0);
}

static struct tokenizer *read_build(struct gguf_build *build, struct error *err)
{
    struct str file = {0};
    gguf_build_finish(build, &file);
    struct gguf *gguf = gguf_view(file.text, file.length, "t.gguf", err);
    if (gguf == NULL) {
        fail_msg("%s", err->message);
    }
    struct tokenizer *tokenizer = tokenizer_read_gguf(gguf, err);
    gguf_close(gguf);
    str_deinit(&file);
    gguf_build_deinit(build);
    return tokenizer;
}

/* Encodes to these ids, and back to `back`. */
static void assert_ids_and_text(const struct tokenizer *tokenizer, const char *text,
                                const char *wanted, const char *wanted_back)
{
    struct token_list list = {0};
    struct str ids = {0};
    struct str back = {0};
    tokenizer_encode(tokenizer, text, strlen(text), true, &list);
    for (size_t i = 0; i < list.n; i++) {
        str_printf(&ids, "%s%d", i > 0 ? " " : "", list.ids[i]);
    }
    assert_string_equal(str_text(&ids), wanted);
    tokenizer_decode(tokenizer, list.ids, list.n, true, &back);
    assert_string_equal(str_text(&back), wanted_back);
    str_deinit(&ids);
    str_deinit(&back);
    token_list_deinit(&list);
}

static void assert_ids(const struct tokenizer *tokenizer, const char *text,
                       const char *wanted)
{
    assert_ids_and_text(tokenizer, text, wanted, text);
}

static void merges_by_score(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    struct gguf_build build = {0};
    add_pieces(&build, usual, ARRAY_LENGTH(usual), ARRAY_LENGTH(usual));
    gguf_build_integer(&build, "tokenizer.ggml.bos_token_id", 1);
    add_flag(&build, "tokenizer.ggml.add_space_prefix", false);
    struct tokenizer *tokenizer = read_build(&build, &err);
    assert_non_null(tokenizer);
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), 2);
    assert_int_equal(tokenizer_pad(tokenizer), -1);
    assert_ids(tokenizer, "", "1");
    assert_ids(tokenizer, "aba", "1 12"); /* ba scores higher than ab; then a + ba */
    assert_ids(tokenizer, "abab", "1 12 7");
    assert_ids(tokenizer, "b a", "1 7 11");
    assert_ids(tokenizer, "a  b", "1 6 10 7"); /* two real spaces before U+2581 twice */
    assert_ids(tokenizer, "a\nb", "1 6 14 7");
    assert_ids(tokenizer, "\xc3\xa9", "1 3 4");
    /* The control piece's text becomes that piece, which decoding then leaves out. */
    struct token_list list = {0};
    tokenizer_encode(tokenizer, "a</s>", 5, false, &list);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.ids[1], 2);
    /* Bytes without a byte piece are unknown. */
    token_list_clear(&list);
    tokenizer_encode(tokenizer, "z", 1, false, &list);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.ids[0], 0);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

static void defaults_of_llama(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    struct gguf_build build = {0};
    add_pieces(&build, usual, ARRAY_LENGTH(usual), ARRAY_LENGTH(usual));
    struct tokenizer *tokenizer = read_build(&build, &err);
    assert_non_null(tokenizer);
    assert_true(tokenizer_adds_bos(tokenizer));
    assert_ids(tokenizer, "a", "1 11"); /* with the space prefix */
    /* Each stretch gets the prefix, only the first one loses it: so does llama.cpp. */
    assert_ids_and_text(tokenizer, "a\na", "1 11 14 11", "a\n a");
    tokenizer_destroy(tokenizer);

    add_pieces(&build, usual, ARRAY_LENGTH(usual), ARRAY_LENGTH(usual));
    add_flag(&build, "tokenizer.ggml.add_bos_token", false);
    add_flag(&build, "tokenizer.ggml.add_eos_token", true);
    tokenizer = read_build(&build, &err);
    assert_non_null(tokenizer);
    assert_false(tokenizer_adds_bos(tokenizer));
    assert_ids(tokenizer, "a", "11 2");
    tokenizer_destroy(tokenizer);
}

/* Score of the first piece and one flag; what a fingerprint must tell apart. */
static uint64_t fingerprint_of(float score, bool has_prefix)
{
    struct error err = {.message = ""};
    struct gguf_build build = {0};
    struct piece pieces[ARRAY_LENGTH(usual)];
    memcpy(pieces, usual, sizeof(usual));
    pieces[6].score = score;
    add_pieces(&build, pieces, ARRAY_LENGTH(pieces), ARRAY_LENGTH(pieces));
    add_flag(&build, "tokenizer.ggml.add_space_prefix", has_prefix);
    struct tokenizer *tokenizer = read_build(&build, &err);
    assert_non_null(tokenizer);
    const uint64_t fingerprint = tokenizer_fingerprint(tokenizer);
    tokenizer_destroy(tokenizer);
    return fingerprint;
}

static void fingerprints(void **state)
{
    (void)state;
    assert_true(fingerprint_of(-2, true) == fingerprint_of(-2, true));
    assert_true(fingerprint_of(-2, true) != fingerprint_of(-2.5F, true));
    assert_true(fingerprint_of(-2, true) != fingerprint_of(-2, false));
}

static void assert_refused(struct gguf_build *build, const char *why)
{
    struct error err = {.message = ""};
    assert_null(read_build(build, &err));
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
}

static void refuses(void **state)
{
    (void)state;
    struct gguf_build build = {0};
    gguf_build_string(&build, "tokenizer.ggml.model", "gpt2");
    assert_refused(&build, "tokenizer.ggml.model \"gpt2\" is not supported");
    gguf_build_string(&build, "general.name", "x");
    assert_refused(&build, "tokenizer.ggml.model");
    add_pieces(&build, usual, ARRAY_LENGTH(usual), ARRAY_LENGTH(usual) - 1);
    assert_refused(&build, "15 tokens, 14 scores, 15 types");
    const struct piece twice[] = {{"a", 0, NORMAL}, {"a", 0, NORMAL}};
    add_pieces(&build, twice, 2, 2);
    assert_refused(&build, "tokens 0 and 1 have the same text");
    const struct piece infinite[] = {{"a", 0, NORMAL}, {"b", INFINITY, NORMAL}};
    add_pieces(&build, infinite, 2, 2);
    assert_refused(&build, "score 1 is not finite");
    add_pieces(&build, usual, ARRAY_LENGTH(usual), ARRAY_LENGTH(usual));
    gguf_build_integer(&build, "tokenizer.ggml.eos_token_id", 15);
    assert_refused(&build, "eos_token_id is 15, the vocabulary has 15 tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_score),
        cmocka_unit_test(defaults_of_llama),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
