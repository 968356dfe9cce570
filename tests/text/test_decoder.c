/*
 * Steps before and after Fuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/str.h"
#include "text/decoder.h"

/* Tokens are separated by '|'; the output starts with "> ", which must stay. */
static void check(const struct decoder *decoder, const char *tokens, const char *wanted)
{
    struct str out = {0};
    str_add(&out, "> ");
    while (*tokens != '\0') {
        const size_t n = strcspn(tokens, "|");
        decoder_token(decoder, tokens, n, &out);
        tokens += n + (tokens[n] == '|');
    }
    decoder_finish(decoder, &out, 2);
    assert_memory_equal(out.text, "> ", 2);
    assert_string_equal(out.text + 2, wanted);
    str_deinit(&out);
}

static void as_gemma(void **state)
{
    (void)state;
    struct decoder decoder = {0};
    check(&decoder, "_a|<0x41>", "_a<0x41>");
    decoder_add(&decoder, DECODER_REPLACE, "_", " ");
    decoder_add(&decoder, DECODER_BYTE_FALLBACK, NULL, NULL);
    decoder_add(&decoder, DECODER_FUSE, NULL, NULL);
    check(&decoder, "_a|_|__b_|<0x41>|<0xc3>|<0xA9>", " a   b A\xc3\xa9");
    check(&decoder, "<0x4|1>", "<0x41>"); /* not a byte token */
    check(&decoder, "", "");
    decoder_add_strip(&decoder, " ", 1, 0);
    check(&decoder, "_|_a|_b", " a b"); /* once, of the whole text */
    decoder_deinit(&decoder);
}

static void strips_each_token_without_fuse(void **state)
{
    (void)state;
    struct decoder decoder = {0};
    decoder_add_strip(&decoder, "_", 2, 1);
    check(&decoder, "___a__|_|____|b", "_a__b");
    decoder_deinit(&decoder);
}

static void replacement_longer_than_the_pattern(void **state)
{
    (void)state;
    struct decoder decoder = {0};
    decoder_add(&decoder, DECODER_REPLACE, "ab", "xyz");
    check(&decoder, "abcab|a|b|abab", "xyzcxyzabxyzxyz");
    decoder_deinit(&decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_gemma),
        cmocka_unit_test(strips_each_token_without_fuse),
        cmocka_unit_test(replacement_longer_than_the_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
