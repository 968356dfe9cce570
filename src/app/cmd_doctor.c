/*
 * cmd_doctor - lathe doctor: is this machine fit for training, and how fast is it?
 */
#include <stdio.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/doctor.h"
#include "base/error.h"
#include "base/mem.h"

/* All that was found is printed, also when something is wrong: then the command fails
 * with the first of it. */
bool cmd_doctor(const struct command *command, int argc, char *const *argv,
                struct error *err)
{
    bool is_json = false;
    bool wants_help = false;
    const struct argument_option options[] = {
        {"--json", NULL, ARGUMENT_SWITCH, &is_json, "one JSON object, for programs"},
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
    struct doctor *doctor = mem_alloc(sizeof(*doctor));
    struct str out = {0};
    doctor_examine(doctor, 1.0);
    if (is_json) {
        doctor_print_json(doctor, &out);
    } else {
        doctor_print(doctor, &out);
    }
    fputs(out.text, stdout);
    const bool done = doctor->n_problems == 0 ||
                      error_set(err, ERROR_FAILED, "%s", doctor->problems[0]);
    str_deinit(&out);
    doctor_deinit(doctor);
    mem_free(doctor);
    return done;
}
