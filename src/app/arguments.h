/*
 * arguments - the command line of one command: options from a table, the rest by
 * position.
 *
 *     const struct argument_option options[] = {
 *         {"--set", "KEY=VALUE", ARGUMENT_LIST, &sets, "a setting, again for more"},
 *         {"--dry-run", NULL, ARGUMENT_SWITCH, &is_dry, "check everything"},
 *         {0}};
 *     if (!arguments_parse(&arguments, argc, argv, options, err)) ...
 *
 * "--name value" and "--name=value" are the same; "--" ends the options.
 */
#ifndef APP_ARGUMENTS_H
#define APP_ARGUMENTS_H

#include "base/base.h"

struct error;
struct str;

enum { ARGUMENTS_MAX = 256 };

enum argument_kind {
    ARGUMENT_SWITCH, /* target: bool */
    ARGUMENT_TEXT,   /* target: const char * */
    ARGUMENT_LIST    /* target: struct argument_list */
};

/* What an ARGUMENT_LIST collects, in the order given; borrowed from argv. */
struct argument_list {
    const char *items[ARGUMENTS_MAX];
    int n;
};

/* One row of a table. `target` is written when the option is there and is left alone
 * otherwise, so it holds the default before. */
struct argument_option {
    const char *name;  /* "--set" */
    const char *value; /* what it takes, for the help; NULL for a switch */
    enum argument_kind kind;
    void *target;
    const char *help;
};

/* What is no option, in order. */
struct arguments {
    const char *items[ARGUMENTS_MAX];
    int n;
};

/* argv[0 .. argc) without the command's name; the table ends with a NULL name. An
 * unknown option is an error with the nearest one. */
MUST_USE bool arguments_parse(struct arguments *arguments, int argc, char *const *argv,
                              const struct argument_option *options, struct error *err);

/* The options as help lines. */
void arguments_print_help(const struct argument_option *options, struct str *out);

#endif
