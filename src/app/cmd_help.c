/*
 * cmd_help - lathe help: the list of commands, or one command's help.
 */
#include <stdio.h>

#include "app/command.h"
#include "base/error.h"
#include "base/str.h"

static void print_commands(void)
{
    printf("lathe fine-tunes Gemma models.\n\nusage: lathe COMMAND ...\n\n");
    for (const struct command *command = command_table(); command->name != NULL;
         command++) {
        printf("  %-10s %s\n", command->name, command->summary);
    }
    printf("\n`lathe help COMMAND` or `lathe COMMAND --help` tells more.\n");
}

bool cmd_help(const struct command *self, int argc, char *const *argv,
              struct error *err)
{
    (void)self;
    if (argc == 0) {
        print_commands();
        return true;
    }
    const struct command *command = command_find(argv[0]);
    if (command == NULL) {
        return error_set(err, ERROR_USAGE,
                         "there is no command %s; `lathe help` lists "
                         "them",
                         argv[0]);
    }
    if (command->run == cmd_help) {
        print_commands();
        return true;
    }
    char *help[] = {(char[]){"--help"}};
    return command->run(command, 1, help, err);
}
