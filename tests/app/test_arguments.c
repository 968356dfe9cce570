/*
 * Command lines: values in both spellings, lists, what is no option, and one line for each
 * mistake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "app/arguments.h"
#include "base/error.h"
#include "base/str.h"

struct given {
    bool is_json;
    const char *text;
    struct argument_list sets;
    struct arguments arguments;
};

static bool parse(struct given *given, int argc, char *const *argv, struct error *err)
{
    const struct argument_option options[] = {
        {"--json", NULL, ARGUMENT_SWITCH, &given->is_json, "one object"},
        {"--text", "TEXT", ARGUMENT_TEXT, &given->text, "a text"},
        {"--set", "KEY=VALUE", ARGUMENT_LIST, &given->sets, "a setting"},
        {0}};
    return arguments_parse(&given->arguments, argc, argv, options, err);
}

#define PARSE(given, err, ...)                                              \
    parse((given), (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), \
          (char *[]){__VA_ARGS__}, (err))

static void all_spellings_are_read(void **state)
{
    (void)state;
    struct given given = {0};
    struct error err;
    char model[] = "model", json[] = "--json", text[] = "--text", hello[] = "-hello",
         set1[] = "--set=a=1", set[] = "--set", b[] = "b=2", dashes[] = "--",
         last[] = "--last", dash[] = "-";
    assert_true(PARSE(&given, &err, model, json, text, hello, set1, set, b, dash,
                      dashes, last));
    assert_true(given.is_json);
    assert_string_equal(given.text, "-hello");
    assert_int_equal(given.sets.n, 2);
    assert_string_equal(given.sets.items[0], "a=1");
    assert_string_equal(given.sets.items[1], "b=2");
    assert_int_equal(given.arguments.n, 3);
    assert_string_equal(given.arguments.items[0], "model");
    assert_string_equal(given.arguments.items[1], "-");
    assert_string_equal(given.arguments.items[2], "--last");
}

static void mistakes_are_told(void **state)
{
    (void)state;
    struct given given = {0};
    struct error err;
    char jsn[] = "--jsn", far[] = "--completely-else", text[] = "--text",
         json[] = "--json=1";
    assert_false(PARSE(&given, &err, jsn));
    assert_string_equal(err.message, "unknown option --jsn; did you mean --json?");
    assert_int_equal(error_exit_code(err.kind), 2);
    assert_false(PARSE(&given, &err, far));
    assert_string_equal(err.message, "unknown option --completely-else");
    assert_false(PARSE(&given, &err, text));
    assert_string_equal(err.message, "--text needs a value: --text TEXT");
    assert_false(PARSE(&given, &err, json));
    assert_string_equal(err.message, "--json takes no value");
}

static void help_names_every_option(void **state)
{
    (void)state;
    bool is_json = false;
    const struct argument_option options[] = {
        {"--json", NULL, ARGUMENT_SWITCH, &is_json, "one object"}, {0}};
    struct str out = {0};
    arguments_print_help(options, &out);
    assert_non_null(strstr(out.text, "--json"));
    assert_non_null(strstr(out.text, "one object"));
    str_deinit(&out);
}

/* Long texts go on behind the column of names. */
static void help_fits_a_terminal(void **state)
{
    (void)state;
    bool is_on = false;
    const struct argument_option options[] = {
        {"--one", "VALUE", ARGUMENT_SWITCH, &is_on,
         "a text that is longer than one line of a terminal of eighty columns, so that "
         "it has to be broken between two words"},
        {0}};
    struct str out = {0};
    arguments_print_help(options, &out);
    assert_string_equal(
        out.text,
        "  --one VALUE           a text that is longer than one line of a terminal of\n"
        "                        eighty columns, so that it has to be broken between "
        "two\n"
        "                        words\n");
    str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_spellings_are_read),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(help_fits_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
