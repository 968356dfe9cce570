/*
 * The manual page and the completion: everything of the tables is in them, and nothing
 * that a formatter or a shell would take for its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/manual.h"
#include "base/error.h"
#include "base/str.h"
#include "train/settings_table.h"

/* A command_describe_fn: each option is in the completion's list of its command. */
static void find_options(void *context, const struct command *command,
                         const struct argument_option *options)
{
    const struct str *script = context;
    char start[64];
    snprintf(start, sizeof(start), "    %s) echo \"", command->name);
    const char *line = strstr(script->text, start);
    assert_non_null(line);
    char words[2000];
    snprintf(words, sizeof(words), "%.*s", (int)strcspn(line, "\n"), line);
    for (const struct argument_option *option = options; option->name != NULL;
         option++) {
        assert_non_null(strstr(words, option->name));
    }
}

static void the_page_has_everything(void **state)
{
    (void)state;
    struct error err;
    struct str page = {0};
    assert_true(manual_print_page(&page, &err));
    for (const struct command *c = command_table(); c->name != NULL; c++) {
        struct str head = {0};
        str_printf(&head, "\n.SS lathe %s ", c->name);
        assert_non_null(strstr(page.text, head.text));
        str_deinit(&head);
    }
    size_t n = 0;
    const struct setting *table = settings_table(&n);
    for (size_t i = 0; i < n; i++) {
        struct str head = {0};
        str_printf(&head, "\n.TP\n\\fB%s\\fR (default: ", table[i].key);
        assert_non_null(strstr(page.text, head.text));
        str_deinit(&head);
    }
    /* Lines that begin with a dot are the few macros that are meant. */
    static const char *const macros[] = {".TH ",  ".SH ",  ".SS ",  ".TP\n",
                                         ".nf\n", ".fi\n", ".br\n", ".PP\n"};
    for (const char *line = page.text; line != NULL && *line != '\0';) {
        bool is_known = line[0] != '.' && line[0] != '\'';
        for (size_t i = 0; i < ARRAY_LENGTH(macros); i++) {
            is_known = is_known || str_starts_with(line, macros[i]);
        }
        assert_true(is_known);
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    /* A hyphen would become a dash of another kind, which cannot be copied to a shell. */
    assert_null(strstr(page.text, " --"));
    str_deinit(&page);
}

static void both_shells_complete_everything(void **state)
{
    (void)state;
    static const char *const shells[] = {"bash", "zsh"};
    for (size_t s = 0; s < ARRAY_LENGTH(shells); s++) {
        struct error err;
        struct str script = {0};
        assert_true(manual_print_completion(shells[s], &script, &err));
        for (const struct command *c = command_table(); c->name != NULL; c++) {
            assert_true(command_describe(c, find_options, &script, &err));
        }
        size_t n = 0;
        const struct setting *table = settings_table(&n);
        for (size_t i = 0; i < n; i++) {
            assert_non_null(strstr(script.text, table[i].key));
        }
        assert_non_null(
            strstr(script.text, "train.recompute) echo \"none layer auto\""));
        assert_non_null(strstr(script.text, "data.pack) echo \"true false\""));
        assert_non_null(strstr(script.text, "\"train --set\") echo \"setting\""));
        assert_non_null(
            strstr(script.text, "\"help --completion\") echo \"choice bash zsh\""));
        str_deinit(&script);
    }
    struct error err;
    struct str script = {0};
    assert_false(manual_print_completion("fish", &script, &err));
    assert_int_equal(error_exit_code(err.kind), 2);
    str_deinit(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_everything),
        cmocka_unit_test(both_shells_complete_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
