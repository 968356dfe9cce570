/*
 * The first place wins, and there the longest token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "text/added_tokens.h"

static void check(const struct added_tokens *added, const char *text, size_t from,
                  size_t at, int32_t wanted_id, size_t wanted_length)
{
    int32_t id = -1;
    size_t length = 0;
    assert_int_equal(added_tokens_find(added, text, strlen(text), from, &id, &length),
                     at);
    assert_int_equal(length, wanted_length);
    if (wanted_length > 0) {
        assert_int_equal(id, wanted_id);
    }
}

static void leftmost_longest(void **state)
{
    (void)state;
    struct added_tokens added = {0};
    check(&added, "abc", 0, 3, -1, 0);
    added_tokens_add(&added, "\n", 1, 10);
    added_tokens_add(&added, "\n\n\n", 3, 12);
    added_tokens_add(&added, "<b>", 3, 20);
    added_tokens_add(&added, "<body>", 6, 21);
    added_tokens_add(&added, "dy><", 4, 22);
    assert_int_equal(added.n_tokens, 5);
    check(&added, "", 0, 0, -1, 0);
    check(&added, "abc", 0, 3, -1, 0);
    check(&added, "a\n\nb", 0, 1, 10, 1); /* two newlines are no token */
    check(&added, "a\n\nb", 2, 2, 10, 1);
    check(&added, "a\n\n\n\n", 0, 1, 12, 3);
    check(&added, "x<body><", 0, 1, 21, 6); /* the earlier one, though both fit */
    check(&added, "x<body", 0, 6, -1, 0);
    check(&added, "<bo<b>", 0, 3, 20, 3);
    added_tokens_deinit(&added);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(leftmost_longest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
