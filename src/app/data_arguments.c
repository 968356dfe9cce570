/*
 * data_arguments - see the header.
 */
#include "app/data_arguments.h"

#include <stdlib.h>

#include "base/error.h"

/* Later sources win, and a fault names its source. --format is a short way to write one
 * of the settings. */
bool data_arguments_read(struct data_arguments *data, struct error *err)
{
    settings_init(&data->settings);
    data->is_read = true;
    if ((data->run != NULL && !settings_read_file(&data->settings, data->run, err)) ||
        !settings_read_environment(&data->settings, err)) {
        return false;
    }
    for (int i = 0; i < data->sets.n; i++) {
        if (!settings_set(&data->settings, data->sets.items[i], err)) {
            return false;
        }
    }
    return data->format == NULL || settings_set_key(&data->settings, "data.format",
                                                    data->format, "--format", err);
}

void data_arguments_deinit(struct data_arguments *data)
{
    if (data->is_read) {
        settings_deinit(&data->settings);
        data->is_read = false;
    }
}

/* A run file without a format means the default, and that is a choice too. */
bool data_arguments_has_format(const struct data_arguments *data)
{
    bool has_format = data->run != NULL || data->format != NULL ||
                      getenv("LATHE_DATA_FORMAT") != NULL;
    for (int i = 0; i < data->sets.n && !has_format; i++) {
        has_format = str_starts_with(data->sets.items[i], "data.format=");
    }
    return has_format;
}
