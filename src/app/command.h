/*
 * command - the commands of the program, from one table (command_table.c).
 */
#ifndef APP_COMMAND_H
#define APP_COMMAND_H

#include "base/base.h"

struct argument_option;
struct arguments;
struct command;
struct error;

typedef void (*command_describe_fn)(void *context, const struct command *command,
                                    const struct argument_option *options);

struct command {
    const char *name;     /* "train" */
    const char *usage;    /* "RUN.yaml [--set KEY=VALUE]..." */
    const char *summary;  /* one line */
    const char *help;     /* more lines, or "" */
    const char *examples; /* command lines, one a line, "# " in front of comments */
    /* argv without the program and the command; options are the command's own. False =
     * failed, with the error that main prints. */
    bool (*run)(const struct command *command, int argc, char *const *argv,
                struct error *err);
    /* In copies that command_describe makes: takes the options instead of printing help. */
    command_describe_fn describe;
    void *context; /* of describe */
};

/*
 * Calls `describe` with the command's table of options, which only cmd_NAME itself has:
 * the manual and the completion are made from it. False, with an error, if the command
 * does not go by way of command_parse.
 */
MUST_USE bool command_describe(const struct command *command,
                               command_describe_fn describe, void *context,
                               struct error *err);

/* The command by name, or NULL. */
const struct command *command_find(const char *name);

/* An error for a name that is no command, with the nearest that is. Returns false. */
bool command_unknown(const char *name, struct error *err);

/* All of them, for help; the last has a NULL name. */
const struct command *command_table(void);

/*
 * Reads the command line into *arguments and the targets of the options. One of these
 * options is --help, with target wants_help: when it was given, usage, help and options
 * are printed and the command is done.
 */
MUST_USE bool command_parse(const struct command *command, int argc, char *const *argv,
                            const struct argument_option *options,
                            const bool *wants_help, struct arguments *arguments,
                            struct error *err);

/* An error that ends with the command's usage. Returns false. */
bool command_usage_error(const struct command *command, const char *what,
                         struct error *err);

/* cmd_*.c */
bool cmd_train(const struct command *command, int argc, char *const *argv,
               struct error *err);
bool cmd_generate(const struct command *command, int argc, char *const *argv,
                  struct error *err);
bool cmd_score(const struct command *command, int argc, char *const *argv,
               struct error *err);
bool cmd_tokenize(const struct command *command, int argc, char *const *argv,
                  struct error *err);
bool cmd_convert(const struct command *command, int argc, char *const *argv,
                 struct error *err);
bool cmd_export(const struct command *command, int argc, char *const *argv,
                struct error *err);
bool cmd_doctor(const struct command *command, int argc, char *const *argv,
                struct error *err);
bool cmd_bench(const struct command *command, int argc, char *const *argv,
               struct error *err);
bool cmd_plot(const struct command *command, int argc, char *const *argv,
              struct error *err);
bool cmd_inspect(const struct command *command, int argc, char *const *argv,
                 struct error *err);
bool cmd_settings(const struct command *command, int argc, char *const *argv,
                  struct error *err);
bool cmd_help(const struct command *command, int argc, char *const *argv,
              struct error *err);

#endif
