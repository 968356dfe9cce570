/*
 * The table of commands: unique names, found by name, help for each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "base/error.h"

/* Lines that fit a terminal, each ended; every line of examples is a call or a comment. */
static void check_text(const char *text)
{
    for (const char *line = text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        if (length > 82 || line[length] != '\n') {
            fail_msg("too long, or not ended: %.*s", (int)length, line);
        }
        line += length + 1;
    }
}

static void each_command_is_found_and_described(void **state)
{
    (void)state;
    int n = 0;
    for (const struct command *c = command_table(); c->name != NULL; c++, n++) {
        assert_ptr_equal(command_find(c->name), c);
        assert_non_null(c->run);
        assert_true(strlen(c->summary) > 10);
        assert_true(c->summary[strlen(c->summary) - 1] != '.');
        assert_true(c->summary[0] >= 'a' && c->summary[0] <= 'z');
        check_text(c->help);
        check_text(c->examples);
        char call[40];
        snprintf(call, sizeof(call), "lathe %s", c->name);
        assert_non_null(strstr(c->examples, call));
        for (const struct command *d = command_table(); d != c; d++) {
            assert_string_not_equal(c->name, d->name);
        }
    }
    assert_true(n >= 11);
    assert_null(command_find("trian"));
    assert_null(command_find(""));
}

static void wrong_use_ends_with_the_usage(void **state)
{
    (void)state;
    struct error err;
    const struct command *train = command_find("train");
    assert_false(train->run(train, 0, NULL, &err));
    assert_int_equal(error_exit_code(err.kind), 2);
    assert_non_null(strstr(err.message, "usage: lathe train RUN.yaml"));
}

/* The program and its help say the same of a name that is no command. */
static void an_unknown_name_gets_the_nearest(void **state)
{
    (void)state;
    struct error err;
    assert_false(command_unknown("trian", &err));
    assert_string_equal(err.message, "there is no command trian; did you mean train?");
    assert_int_equal(error_exit_code(err.kind), 2);
    assert_false(command_unknown("xyzzy", &err));
    assert_string_equal(err.message,
                        "there is no command xyzzy; `lathe help` lists them");
    const struct command *help = command_find("help");
    char name[] = "trian";
    char *arguments[] = {name};
    assert_false(help->run(help, 1, arguments, &err));
    assert_string_equal(err.message, "there is no command trian; did you mean train?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_command_is_found_and_described),
        cmocka_unit_test(wrong_use_ends_with_the_usage),
        cmocka_unit_test(an_unknown_name_gets_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
