/*
 * Messages are one line, bounded, and carry the exit code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void set_formats_and_returns_false(void **state)
{
    (void)state;
    struct error err;
    assert_false(error_set(&err, ERROR_DATA, "tensor %s ends at %d", "w", 7));
    assert_string_equal(err.message, "tensor w ends at 7");
    assert_int_equal(err.kind, ERROR_DATA);
}

static void wrap_puts_context_in_front(void **state)
{
    (void)state;
    struct error err;
    error_set(&err, ERROR_PEER, "gone");
    assert_false(error_wrap(&err, "rank %d", 2));
    assert_string_equal(err.message, "rank 2: gone");
    assert_int_equal(err.kind, ERROR_PEER);
}

static void own_message_may_be_an_argument(void **state)
{
    (void)state;
    struct error err;
    error_set(&err, ERROR_DATA, "inner");
    error_set(&err, ERROR_FAILED, "outer: %s", err.message);
    assert_string_equal(err.message, "outer: inner");
}

static void too_long_is_cut(void **state)
{
    (void)state;
    struct error err;
    char text[3000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    error_set(&err, ERROR_DATA, "%s", text);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    error_wrap(&err, "in front");
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_int_equal(strncmp(err.message, "in front: xx", 12), 0);
    error_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
}

static void newlines_become_spaces(void **state)
{
    (void)state;
    struct error err;
    error_set(&err, ERROR_DATA, "key \"%s\"", "a\nb\r");
    assert_string_equal(err.message, "key \"a b \"");
    /* Names of fields in a file are not what a terminal should obey. */
    error_set(&err, ERROR_DATA, "\x1B[31m\x7F\xC3\xA9");
    error_wrap(&err, "a\tb");
    assert_string_equal(err.message, "a?b: ?[31m?\xC3\xA9");
}

static void errno_gives_kind_and_reason(void **state)
{
    (void)state;
    struct error err;
    assert_false(error_set_errno(&err, ENOENT, "%s", "f"));
    assert_string_equal(err.message, "f: No such file or directory");
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    error_set_errno(&err, ENOSPC, "f");
    assert_int_equal(err.kind, ERROR_RESOURCE);
    error_set_errno(&err, EACCES, "f");
    assert_int_equal(err.kind, ERROR_DATA);
}

static void exit_codes(void **state)
{
    (void)state;
    assert_int_equal(error_exit_code(ERROR_FAILED), 1);
    assert_int_equal(error_exit_code(ERROR_USAGE), 2);
    assert_int_equal(error_exit_code(ERROR_DATA), 3);
    assert_int_equal(error_exit_code(ERROR_NOT_FOUND), 3);
    assert_int_equal(error_exit_code(ERROR_RESOURCE), 4);
    assert_int_equal(error_exit_code(ERROR_PEER), 5);
    assert_int_equal(error_exit_code(ERROR_PREEMPTED), 6);
    assert_int_equal(error_exit_code(ERROR_INTERRUPTED), 130);
}

/* Only what failed is called an error, not what somebody asked for. */
static void prefixes(void **state)
{
    (void)state;
    assert_string_equal(error_prefix(ERROR_FAILED), "lathe: error: ");
    assert_string_equal(error_prefix(ERROR_RESOURCE), "lathe: error: ");
    assert_string_equal(error_prefix(ERROR_INTERRUPTED), "lathe: ");
    assert_string_equal(error_prefix(ERROR_CANCELLED), "lathe: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_formats_and_returns_false),
        cmocka_unit_test(wrap_puts_context_in_front),
        cmocka_unit_test(own_message_may_be_an_argument),
        cmocka_unit_test(too_long_is_cut),
        cmocka_unit_test(newlines_become_spaces),
        cmocka_unit_test(errno_gives_kind_and_reason),
        cmocka_unit_test(exit_codes),
        cmocka_unit_test(prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
