/*
 * data_arguments - settings as the command line gives them: of a run file, of the
 * environment over it, and of --set over both, in the order given. `lathe train` reads
 * them in this way, and what shows or scores rows (--run) has to read rows as it does.
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

/* The settings are not checked as a whole, which commands without a run cannot ask for:
 * model and run folder may be missing. */
MUST_USE bool data_arguments_read(struct data_arguments *data, struct error *err);
void data_arguments_deinit(struct data_arguments *data); /* takes a zeroed one */

/* Whether --run or a --set names the format of rows; otherwise it may be guessed. */
bool data_arguments_has_format(const struct data_arguments *data);

#endif
