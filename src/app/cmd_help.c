/*
 * cmd_help - lathe help: the list of commands, one command's help, the manual page, the
 * shells' completion.
 */
#include <stdio.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/manual.h"
#include "base/str.h"
#include "lathe/common.h"

/* The list, in the order of the table. */
static void print_commands(void)
{
    printf("lathe %s: fine-tunes Gemma models on one machine.\n\n"
           "usage: lathe COMMAND ...\n\n",
           LATHE_VERSION_STRING);
    for (const struct command *command = command_table(); command->name != NULL;
         command++) {
        printf("  %-10s %s\n", command->name, command->summary);
    }
    printf(
        "\n`lathe help COMMAND` or `lathe COMMAND --help` tells more, with examples;\n"
        "`lathe --version` the version. To begin:\n\n"
        "  lathe doctor\n"
        "  lathe train examples/demo/demo.yaml\n\n"
        "Exit codes: 0 done, 1 failed, 2 command line or settings, 3 data or model "
        "file,\n4 memory or disk, 130 interrupted.\n");
}

/* Each command prints its own help, since only it knows its options: it is run with
 * --help, as from the command line. */
static bool print_help_of(const char *name, struct error *err)
{
    const struct command *command = command_find(name);
    if (command == NULL) {
        return command_unknown(name, err);
    }
    /* argv is an array of char * by tradition, hence a copy that may be written. */
    char *help[] = {(char[]){"--help"}};
    return command->run(command, 1, help, err);
}

/* Both are files for `make install`, made from the same tables as the help. */
static bool print_generated(bool is_manual, const char *shell, struct error *err)
{
    struct str out = {0};
    const bool done = is_manual ? manual_print_page(&out, err)
                                : manual_print_completion(shell, &out, err);
    if (done) {
        fputs(out.text, stdout);
    }
    str_deinit(&out);
    return done;
}

/* Its own help is the list, with its options: without arguments, people want that. */
bool cmd_help(const struct command *command, int argc, char *const *argv,
              struct error *err)
{
    bool is_manual = false;
    const char *shell = NULL;
    bool wants_help = false;
    const struct argument_option options[] = {
        {"--man", NULL, ARGUMENT_SWITCH, &is_manual, "the manual page, for man"},
        {"--completion", "bash|zsh", ARGUMENT_TEXT, &shell,
         "a script that completes lathe's commands, options and settings"},
        {"--help", NULL, ARGUMENT_SWITCH, &wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &wants_help, &arguments, err)) {
        return false;
    }
    if (wants_help) {
        return true;
    }
    if (arguments.n > 1) {
        return command_usage_error(command, "expected one command at most", err);
    }
    if (is_manual || shell != NULL) {
        return print_generated(is_manual, shell, err);
    }
    if (arguments.n == 1) {
        return print_help_of(arguments.items[0], err);
    }
    print_commands();
    return true;
}
