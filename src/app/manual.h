/*
 * manual - the manual page and the shells' completion, made from the tables that the help
 * is made from: commands, their options, settings.
 *
 *     struct str out = {0};
 *     if (!manual_print_page(&out, err)) ...
 *     fputs(out.text, stdout);
 *
 * What an option takes is told by the name of its value: "a|b|c" are choices, "KEY=VALUE"
 * is a setting, capitals with a slash or a dot, FILE, DIR, PATH, MODEL, RUN are paths.
 */
#ifndef APP_MANUAL_H
#define APP_MANUAL_H

#include "base/base.h"

struct error;
struct str;

/* lathe.1, for man. */
MUST_USE bool manual_print_page(struct str *out, struct error *err);

/* Scripts for "bash" or "zsh"; ERROR_USAGE for another shell. */
MUST_USE bool manual_print_completion(const char *shell, struct str *out,
                                      struct error *err);

#endif
