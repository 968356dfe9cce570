/*
 * lathe - the program: finds the command, runs it, prints its error once.
 */
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

static bool unknown_command(const char *name, struct error *err)
{
    const char *names[64];
    size_t n = 0;
    for (const struct command *command = command_table();
         command->name != NULL && n < ARRAY_LENGTH(names); command++) {
        names[n++] = command->name;
    }
    const char *nearest = str_nearest(name, names, n);
    return error_set(err, ERROR_USAGE, "there is no command %s%s%s%s", name,
                     nearest == NULL ? "; `lathe help` lists them" : "; did you mean ",
                     nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

int main(int argc, char **argv)
{
    struct error err = {0};
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    }
    const struct command *command = command_find(name);
    const bool done = command == NULL ? unknown_command(name, &err)
                                      : command->run(command, argc > 1 ? argc - 2 : 0,
                                                     argv + 2, &err);
    if (!done) {
        log_error("%s", err.message);
        return error_exit_code(err.kind);
    }
    return 0;
}
