/*
 * cmd_help - lathe help: the list of commands, or one command's help.
 */
#include <stdio.h>
#include <string.h>

#include "app/command.h"

/* The list, in the order of the table. */
static void print_commands(void)
{
    printf("lathe fine-tunes Gemma models.\n\nusage: lathe COMMAND ...\n\n");
    for (const struct command *command = command_table(); command->name != NULL;
         command++) {
        printf("  %-10s %s\n", command->name, command->summary);
    }
    printf("\n`lathe help COMMAND` or `lathe COMMAND --help` tells more.\n"
           "Exit codes: 0 done, 1 failed, 2 command line or settings, 3 data or model "
           "file,\n4 memory or disk, 130 interrupted.\n");
}

/* Each command prints its own help, since only it knows its options: it is run with
 * --help, as from the command line. Further arguments are not looked at. */
bool cmd_help(const struct command *self, int argc, char *const *argv,
              struct error *err)
{
    (void)self;
    if (argc == 0 || strcmp(argv[0], "--help") == 0) {
        print_commands();
        return true;
    }
    const struct command *command = command_find(argv[0]);
    if (command == NULL) {
        return command_unknown(argv[0], err);
    }
    /* help itself has no options; its help is the list. */
    if (command->run == cmd_help) {
        print_commands();
        return true;
    }
    /* argv is an array of char * by tradition, hence a copy that may be written. */
    char *help[] = {(char[]){"--help"}};
    return command->run(command, 1, help, err);
}
