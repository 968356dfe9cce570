/*
 * command - what all commands share; the table is in command_table.c.
 */
#include "app/command.h"

#include <stdio.h>
#include <string.h>

#include "app/arguments.h"
#include "base/error.h"
#include "base/str.h"

enum { MAX_COMMANDS = 32 };

/* By comparing one after the other, as there are few. */
const struct command *command_find(const char *name)
{
    for (const struct command *command = command_table(); command->name != NULL;
         command++) {
        if (strcmp(command->name, name) == 0) {
            return command;
        }
    }
    return NULL;
}

/* Names only those that are near: a suggestion far off would be worse than none. */
bool command_unknown(const char *name, struct error *err)
{
    const char *names[MAX_COMMANDS];
    size_t n = 0;
    for (const struct command *command = command_table(); command->name != NULL;
         command++) {
        ASSERT(n < MAX_COMMANDS);
        names[n++] = command->name;
    }
    const char *nearest = str_nearest(name, names, n);
    return error_set(err, ERROR_USAGE, "there is no command %s%s%s%s", name,
                     nearest == NULL ? "; `lathe help` lists them" : "; did you mean ",
                     nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

/* Lines indented by two; those of comments come through as they are. */
static void add_examples(const char *examples, struct str *out)
{
    for (const char *line = examples; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        str_printf(out, "  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* The summary in the table begins with a small letter and has no full stop, as the list
 * of commands shows it; here it stands as a sentence. It is built as one text and
 * written at once. Commands without options have no table to show. */
static void print_help(const struct command *command,
                       const struct argument_option *options)
{
    struct str out = {0};
    /* 'a' to 'A': the first letter of a summary is a small one. */
    str_printf(&out, "usage: lathe %s %s\n\n%c%s.\n", command->name, command->usage,
               command->summary[0] - 'a' + 'A', command->summary + 1);
    if (command->help[0] != '\0') {
        str_printf(&out, "\n%s", command->help);
    }
    if (options != NULL && options[0].name != NULL) {
        str_add(&out, "\nOptions:\n");
        arguments_print_help(options, &out);
    }
    if (command->examples[0] != '\0') {
        str_add(&out, "\nExamples:\n");
        add_examples(command->examples, &out);
    }
    fputs(out.text, stdout);
    str_deinit(&out);
}

bool command_parse(const struct command *command, int argc, char *const *argv,
                   const struct argument_option *options, const bool *wants_help,
                   struct arguments *arguments, struct error *err)
{
    if (!arguments_parse(arguments, argc, argv, options, err)) {
        return false;
    }
    if (*wants_help && command->describe != NULL) {
        command->describe(command->context, command, options);
    } else if (*wants_help) {
        print_help(command, options);
    }
    return true;
}

/* As from the command line, with --help: the one call on which a command only shows its
 * options. */
bool command_describe(const struct command *command, command_describe_fn describe,
                      void *context, struct error *err)
{
    struct command copy = *command;
    copy.describe = describe;
    copy.context = context;
    /* argv is an array of char * by tradition, hence a copy that may be written. */
    char *help[] = {(char[]){"--help"}};
    return command->run(&copy, 1, help, err);
}

/* ERROR_USAGE is what makes the exit code 2. */
bool command_usage_error(const struct command *command, const char *what,
                         struct error *err)
{
    return error_set(err, ERROR_USAGE, "%s; usage: lathe %s %s", what, command->name,
                     command->usage);
}
