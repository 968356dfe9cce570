/*
 * Growing text, patterns, distance, sizes for people, UTF-8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/str.h"

static void text_grows(void **state)
{
    (void)state;
    struct str s = {0};
    assert_string_equal(str_text(&s), "");
    str_add(&s, "");
    assert_string_equal(s.text, "");
    for (int i = 0; i < 1000; i++) {
        str_printf(&s, "%d,", i % 10);
    }
    assert_int_equal(s.length, 2000);
    assert_int_equal(strlen(s.text), 2000);
    str_clear(&s);
    assert_string_equal(str_text(&s), "");
    str_add_char(&s, 'a');
    str_add_bytes(&s, "b\0c", 3);
    assert_int_equal(s.length, 4);
    assert_memory_equal(s.text, "ab\0c", 5);
    str_deinit(&s);
    assert_null(s.text);
    str_deinit(&s);
}

static void prefix_and_suffix(void **state)
{
    (void)state;
    assert_true(str_starts_with("model.layers.0", "model."));
    assert_true(str_starts_with("x", ""));
    assert_false(str_starts_with("mo", "model"));
    assert_true(str_ends_with("a.gguf", ".gguf"));
    assert_true(str_ends_with("x", ""));
    assert_false(str_ends_with("gguf", ".gguf"));
}

static void patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "abc", true},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"*c", "abc", true},
        {"a*", "abc", true},
        {"a*c", "abbbc", true},
        {"a*c", "abbbd", false},
        {"*ab*", "aab", true},
        {"**a**", "bab", true},
        {"?", "", false},
        {"*?", "", false},
        {"*a*b*c", "xaybzc", true},
        {"*a*b*c", "xaybz", false},
        {"*embed_tokens_per_layer*", "model.embed_tokens_per_layer.weight", true},
        {"*embed_tokens_per_layer*", "model.embed_tokens.weight", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(str_matches(cases[i].pattern, cases[i].text),
                         cases[i].matches);
    }
}

/* Would take for ever with a matcher that tries every split. */
static void hostile_pattern_is_fast(void **state)
{
    (void)state;
    char text[4001];
    memset(text, 'a', 4000);
    text[4000] = '\0';
    assert_false(str_matches("*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

static void distances(void **state)
{
    (void)state;
    assert_int_equal(str_distance("", ""), 0);
    assert_int_equal(str_distance("", "abc"), 3);
    assert_int_equal(str_distance("abc", ""), 3);
    assert_int_equal(str_distance("epochs", "epochs"), 0);
    assert_int_equal(str_distance("epocs", "epochs"), 1);
    assert_int_equal(str_distance("epohcs", "epochs"), 1);
    assert_int_equal(str_distance("kitten", "sitting"), 3);
}

static void nearest_or_none(void **state)
{
    (void)state;
    static const char *const keys[] = {"epochs", "steps", "batch_rows", "micro_rows"};
    assert_string_equal(str_nearest("epoch", keys, 4), "epochs");
    assert_string_equal(str_nearest("batchrows", keys, 4), "batch_rows");
    assert_null(str_nearest("temperature", keys, 4));
    assert_null(str_nearest("x", keys, 0));
}

static void sizes_for_people(void **state)
{
    (void)state;
    char buffer[24];
    assert_string_equal(str_format_bytes(buffer, 0.0), "0 B");
    assert_string_equal(str_format_bytes(buffer, 640.0), "640 B");
    assert_string_equal(str_format_bytes(buffer, 1536.0), "1.5 KiB");
    assert_string_equal(str_format_bytes(buffer, 1.5 * 1024 * 1024 * 1024), "1.5 GiB");
    assert_string_equal(str_format_bytes(buffer, 300.0 * 1024 * 1024), "300 MiB");
    assert_string_equal(str_plural(0), "s");
    assert_string_equal(str_plural(1), "");
    assert_string_equal(str_plural(2), "s");
}

/* Every sequence of up to four bytes from the borders of the ranges, against decoding. */
static int reference_length(const unsigned char *b, size_t n)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    const int needed = b[0] < 0x80             ? 1
                       : (b[0] & 0xE0) == 0xC0 ? 2
                       : (b[0] & 0xF0) == 0xE0 ? 3
                       : (b[0] & 0xF8) == 0xF0 ? 4
                                               : 0;
    if (needed == 0 || (size_t)needed > n) {
        return 0;
    }
    uint32_t code = needed == 1 ? b[0] : b[0] & (0xFFu >> (needed + 1));
    for (int i = 1; i < needed; i++) {
        if ((b[i] & 0xC0) != 0x80) {
            return 0;
        }
        code = code << 6 | (b[i] & 0x3F);
    }
    const bool is_valid = code >= lowest[needed] && code <= 0x10FFFF &&
                          !(code >= 0xD800 && code <= 0xDFFF);
    return is_valid ? needed : 0;
}

static void utf8_lengths(void **state)
{
    (void)state;
    static const unsigned char borders[] = {
        0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
        0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF};
    enum { N = ARRAY_LENGTH(borders) };
    for (int code = 0; code < N * N * N * N; code++) {
        const unsigned char bytes[4] = {borders[code % N], borders[code / N % N],
                                        borders[code / (N * N) % N],
                                        borders[code / (N * N * N)]};
        const size_t n = 1 + (size_t)code % 4;
        const int expected = reference_length(bytes, n);
        if (str_utf8_length((const char *)bytes, n) != expected) {
            fail_msg("%02x %02x %02x %02x: expected %d", bytes[0], bytes[1], bytes[2],
                     bytes[3], expected);
        }
    }
    assert_int_equal(str_utf8_length("", 0), 0);
}

static void hex_digits(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdefABCDEF";
    int n_digits = 0;
    for (int c = 0; c < 256; c++) {
        const char *found = c == 0 ? NULL : strchr(digits, c);
        const int place = found == NULL ? -1 : (int)(found - digits);
        assert_int_equal(str_hex_digit((char)c), place > 15 ? place - 6 : place);
        n_digits += place >= 0;
    }
    assert_int_equal(n_digits, 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows),       cmocka_unit_test(prefix_and_suffix),
        cmocka_unit_test(patterns),         cmocka_unit_test(hostile_pattern_is_fast),
        cmocka_unit_test(distances),        cmocka_unit_test(nearest_or_none),
        cmocka_unit_test(sizes_for_people), cmocka_unit_test(utf8_lengths),
        cmocka_unit_test(hex_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
