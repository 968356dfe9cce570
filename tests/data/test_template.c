/*
 * Fields, braces, and lines that are left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "data/template.h"

/* Renders with values for the fields a, b in the order of their appearance. */
static void check(const char *text, const char *first, const char *second,
                  const char *wanted)
{
    struct error err = {.message = ""};
    struct template *form = template_create(text, &err);
    if (form == NULL) {
        fail_msg("%s", err.message);
    }
    const struct template_value values[2] = {{first, strlen(first)},
                                             {second, strlen(second)}};
    struct str out = {0};
    template_render(form, values, &out);
    assert_string_equal(str_text(&out), wanted);
    str_deinit(&out);
    template_destroy(form);
}

static void fields(void **state)
{
    (void)state;
    check("", "", "", "");
    check("Q: {q}\nA: ", "why", "", "Q: why\nA: ");
    check("{q}{c}{q}", "x", "yz", "xyzx");
    check("{{{q}}} {{}}", "x", "", "{x} {}");
    check("{q}\n{c}", "{c}", "{q}", "{c}\n{q}"); /* values are not templates */
    struct error err;
    struct template *form = template_create("{b} {a} {b}", &err);
    assert_int_equal(template_n_fields(form), 2);
    assert_string_equal(template_field(form, 0), "b");
    assert_string_equal(template_field(form, 1), "a");
    template_destroy(form);
    template_destroy(NULL);
}

static void empty_lines_are_left_out(void **state)
{
    (void)state;
    static const char dolly[] =
        "Instruction: {instruction}\nContext: {context}\nResponse: ";
    check(dolly, "Sum up", "Text", "Instruction: Sum up\nContext: Text\nResponse: ");
    check(dolly, "Sum up", "", "Instruction: Sum up\nResponse: ");
    check(dolly, "", "", "Response: ");
    check("{a} and {b}\nx", "", "y", " and y\nx"); /* one is enough to keep the line */
    check("{a} and {b}\nx", "", "", "x");
    check("x\n\ny {a}\n", "", "", "x\n\n"); /* a line without fields stays */
    check("x\n{a}", "", "", "x\n");
}

static void assert_refused(const char *text, const char *why)
{
    struct error err = {.message = ""};
    assert_null(template_create(text, &err));
    assert_int_equal(err.kind, ERROR_USAGE);
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
}

static void refuses(void **state)
{
    (void)state;
    assert_refused("a {b", "character 3: expected {field}");
    assert_refused("a {}", "character 3: expected {field}");
    assert_refused("a {b\n}", "character 3");
    assert_refused("a {b{c}}", "character 3");
    assert_refused("a } b", "character 3: } without {");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),
        cmocka_unit_test(empty_lines_are_left_out),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
