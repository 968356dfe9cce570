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
#include "support/piece_build.h"
#include "text/tokenizer.h"

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
    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
    gguf_build_integer(&build, "tokenizer.ggml.bos_token_id", 1);
    piece_build_flag(&build, "tokenizer.ggml.add_space_prefix", false);
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
    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
    struct tokenizer *tokenizer = read_build(&build, &err);
    assert_non_null(tokenizer);
    assert_true(tokenizer_adds_bos(tokenizer));
    assert_ids(tokenizer, "a", "1 11"); /* with the space prefix */
    /* Each stretch gets the prefix, only the first one loses it: so does llama.cpp. */
    assert_ids_and_text(tokenizer, "a\na", "1 11 14 11", "a\n a");
    tokenizer_destroy(tokenizer);

    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
    piece_build_flag(&build, "tokenizer.ggml.add_bos_token", false);
    piece_build_flag(&build, "tokenizer.ggml.add_eos_token", true);
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
    struct piece_build pieces[PIECE_BUILD_USUAL];
    memcpy(pieces, piece_build_usual, sizeof(pieces));
    pieces[6].score = score;
    piece_build_add(&build, pieces, ARRAY_LENGTH(pieces), ARRAY_LENGTH(pieces));
    piece_build_flag(&build, "tokenizer.ggml.add_space_prefix", has_prefix);
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
    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL,
                    PIECE_BUILD_USUAL - 1);
    assert_refused(&build, "15 tokens, 14 scores, 15 types");
    const struct piece_build twice[] = {{"a", 0, PIECE_BUILD_NORMAL},
                                        {"a", 0, PIECE_BUILD_NORMAL}};
    piece_build_add(&build, twice, 2, 2);
    assert_refused(&build, "tokens 0 and 1 have the same text");
    const struct piece_build infinite[] = {{"a", 0, PIECE_BUILD_NORMAL},
                                           {"b", INFINITY, PIECE_BUILD_NORMAL}};
    piece_build_add(&build, infinite, 2, 2);
    assert_refused(&build, "score 1 is not finite");
    piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
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
