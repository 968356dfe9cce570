/*
 * cmd_train - lathe train RUN.yaml: settings from their sources, then the trainer.
 */
#include "app/arguments.h"
#include "app/command.h"
#include "app/data_arguments.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "train/settings.h"
#include "train/trainer.h"

/* What the command line gives. */
struct train_arguments {
    struct data_arguments data;     /* the settings */
    struct trainer_options options; /* what is no setting of the run */
    bool wants_help;
};

/* The settings live as long as the run, because the trainer borrows them. Whether the
 * run folder may be replaced is asked on the command line only: a run file that says so
 * would replace results on every call. */
bool cmd_train(const struct command *command, int argc, char *const *argv,
               struct error *err)
{
    struct train_arguments given = {0};
    const struct argument_option options[] = {
        {"--set", "KEY=VALUE", ARGUMENT_LIST, &given.data.sets,
         "a setting over the run file's; again for more"},
        {"--overwrite", NULL, ARGUMENT_SWITCH, &given.options.overwrites,
         "replace the run folder if it is there"},
        {"--dry-run", NULL, ARGUMENT_SWITCH, &given.options.is_dry,
         "check settings, data and model, print the plan, train nothing; rows that are "
         "tokenised stay in the token cache for the run"},
        {"--profile", NULL, ARGUMENT_SWITCH, &given.options.profiles,
         "print the time of each kernel at the end, and write RUN/trace.json (a Chrome "
         "trace)"},
        {"--help", NULL, ARGUMENT_SWITCH, &given.wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &given.wants_help, &arguments,
                       err)) {
        return false;
    }
    if (given.wants_help) {
        return true;
    }
    if (arguments.n != 1) {
        return command_usage_error(command, "expected one run file", err);
    }
    given.data.run = arguments.items[0];
    /* A run is worth more than a terminal: it goes on when nobody reads its lines. */
    interrupt_install();
    interrupt_ignore_broken_pipe();
    /* Checked as a whole at the end: a later source may repair what an earlier one left
     * inconsistent. */
    const bool done = data_arguments_read(&given.data, err) &&
                      settings_check(&given.data.settings, err) &&
                      trainer_run(&given.data.settings, &given.options, err);
    data_arguments_deinit(&given.data);
    return done;
}
