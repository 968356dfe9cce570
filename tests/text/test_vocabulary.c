/*
 * Texts to ids and back, through growth; what may not be entered twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/vocabulary.h"

enum { MANY = 5000 };

static void finds_what_was_added(void **state)
{
    (void)state;
    struct vocabulary vocabulary = {0};
    struct error err;
    char text[40];
    assert_int_equal(vocabulary_find(&vocabulary, "a", 1), -1);
    for (int i = 0; i < MANY; i++) {
        const int n = snprintf(text, sizeof(text), "%*d", 1 + i % 20, i);
        assert_true(vocabulary_add(&vocabulary, 2 * i, text, (size_t)n,
                                   i % 2 == 0 ? VOCABULARY_MODEL : 0, &err));
    }
    for (int i = 0; i < MANY; i++) {
        const int n = snprintf(text, sizeof(text), "%*d", 1 + i % 20, i);
        assert_int_equal(vocabulary_find(&vocabulary, text, (size_t)n), 2 * i);
        assert_int_equal(vocabulary_find_model(&vocabulary, text, (size_t)n),
                         i % 2 == 0 ? 2 * i : -1);
        size_t length;
        assert_string_equal(vocabulary_text(&vocabulary, 2 * i, &length), text);
        assert_int_equal(length, n);
        assert_null(vocabulary_text(&vocabulary, 2 * i + 1, &length));
    }
    assert_int_equal(vocabulary.n_ids, 2 * MANY - 1);
    assert_int_equal(vocabulary.n_tokens, MANY);
    assert_int_equal(vocabulary_find(&vocabulary, "", 0), -1);
    assert_int_equal(vocabulary_find(&vocabulary, "nothing", 7), -1);
    vocabulary_deinit(&vocabulary);
}

static void texts_may_hold_nul(void **state)
{
    (void)state;
    struct vocabulary vocabulary = {0};
    struct error err;
    assert_true(vocabulary_add(&vocabulary, 0, "a\0b", 3, 0, &err));
    assert_true(vocabulary_add(&vocabulary, 1, "a", 1, 0, &err));
    assert_int_equal(vocabulary_find(&vocabulary, "a\0b", 3), 0);
    assert_int_equal(vocabulary_find(&vocabulary, "a", 1), 1);
    assert_int_equal(vocabulary_find(&vocabulary, "a\0c", 3), -1);
    vocabulary_deinit(&vocabulary);
}

static void assert_refused(struct vocabulary *vocabulary, int64_t id, const char *text,
                           const char *why)
{
    struct error err = {.message = ""};
    assert_false(vocabulary_add(vocabulary, id, text, strlen(text), 0, &err));
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
}

static void refuses(void **state)
{
    (void)state;
    struct vocabulary vocabulary = {0};
    struct error err;
    assert_true(vocabulary_add(&vocabulary, 7, "x", 1, 0, &err));
    assert_refused(&vocabulary, 7, "y", "token id 7 is given twice");
    assert_refused(&vocabulary, 8, "x", "tokens 7 and 8 have the same text \"x\"");
    assert_refused(&vocabulary, 9, "", "token 9 has no text");
    assert_refused(&vocabulary, -1, "z", "token id -1");
    assert_refused(&vocabulary, VOCABULARY_MAX_TOKENS, "z", "is not in 0 ..");
    vocabulary_deinit(&vocabulary);
}

static void byte_tokens(void **state)
{
    (void)state;
    uint8_t byte = 0;
    assert_true(vocabulary_is_byte("<0xAf>", 6, &byte));
    assert_int_equal(byte, 0xaf);
    assert_false(vocabulary_is_byte("<0xAG>", 6, &byte));
    assert_false(vocabulary_is_byte("<0xAA", 5, &byte));
    assert_false(vocabulary_is_byte("<0xAA>>", 7, &byte));
    struct vocabulary vocabulary = {0};
    struct error err;
    assert_true(vocabulary_add(&vocabulary, 0, "<0x0A>", 6, VOCABULARY_MODEL, &err));
    assert_int_equal(vocabulary_find_byte(&vocabulary, 10), 0);
    assert_int_equal(vocabulary_find_byte(&vocabulary, 11), -1);
    vocabulary_deinit(&vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(texts_may_hold_nul),
        cmocka_unit_test(refuses),
        cmocka_unit_test(byte_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
