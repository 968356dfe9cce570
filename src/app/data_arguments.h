/*
 * data_arguments - how rows are read, for commands without a run: as a run file says
 * (--run), as the environment says, and as --set says over both.
 *
 *     struct data_arguments data = {0};
 *     ... options {"--run", ...&data.run}, {"--set", ...&data.sets} ...
 *     if (!data_arguments_read(&data, err)) ... data.settings ...
 *     data_arguments_deinit(&data);
 */
#ifndef APP_DATA_ARGUMENTS_H
#define APP_DATA_ARGUMENTS_H

#include "app/arguments.h"
#include "train/settings.h"

struct error;

struct data_arguments {
    const char *run;           /* path of a run file, or NULL */
    struct argument_list sets; /* in the order given */
    const char *format;        /* of rows, as data.format has it; or NULL */
    struct settings settings;
    bool is_read; /* settings hold something */
};

/* The settings are not checked as a whole: model and run folder may be missing. */
MUST_USE bool data_arguments_read(struct data_arguments *data, struct error *err);
void data_arguments_deinit(struct data_arguments *data); /* takes a zeroed one */

/* Whether --run or a --set names the format of rows; otherwise it may be guessed. */
bool data_arguments_has_format(const struct data_arguments *data);

#endif
