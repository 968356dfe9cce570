/*
 * settings_data - what the settings of section data must have in common.
 */
#ifndef TRAIN_SETTINGS_DATA_H
#define TRAIN_SETTINGS_DATA_H

#include "base/base.h"

struct error;
struct settings;

/* Keys that are missing, or do not go together, or would be ignored. */
MUST_USE bool settings_data_check(const struct settings *settings, struct error *err);

/* The part of it that says how a row is read: keys that belong to one format. */
MUST_USE bool settings_data_check_format(const struct settings *settings,
                                         struct error *err);

/* The weight of file i of data.train, 1 where none is given. The settings are checked. */
double settings_data_weight(const struct settings *settings, int64_t i);

#endif
