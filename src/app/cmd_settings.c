/*
 * cmd_settings - lathe settings: the table of settings as a reference page.
 */
#include <stdio.h>

#include "app/arguments.h"
#include "app/command.h"
#include "base/str.h"
#include "train/settings.h"

/* Both forms are made from the table of settings (train/settings.def), so they cannot
 * lag behind it. Neither reads a run file nor the environment. */
bool cmd_settings(const struct command *command, int argc, char *const *argv,
                  struct error *err)
{
    bool is_markdown = false;
    bool wants_help = false;
    const struct argument_option options[] = {
        {"--markdown", NULL, ARGUMENT_SWITCH, &is_markdown,
         "as a page in Markdown (docs/settings.md)"},
        {"--help", NULL, ARGUMENT_SWITCH, &wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &wants_help, &arguments, err)) {
        return false;
    }
    if (wants_help) {
        return true;
    }
    if (arguments.n > 0) {
        return command_usage_error(command, "no arguments expected", err);
    }
    /* Built as one text and written at once. */
    struct str out = {0};
    if (is_markdown) {
        settings_print_reference(&out);
    } else {
        settings_print_summary(&out);
    }
    fputs(out.text, stdout);
    str_deinit(&out);
    return true;
}
