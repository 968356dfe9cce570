/*
 * settings_table - the rows of settings.def, for the files that walk them.
 */
#ifndef TRAIN_SETTINGS_TABLE_H
#define TRAIN_SETTINGS_TABLE_H

#include "train/settings.h"

enum setting_kind {
    SETTING_STRING,
    SETTING_CHOICE,
    SETTING_INTEGER,
    SETTING_NUMBER,
    SETTING_SWITCH,
    SETTING_LIST,
    SETTING_GROUPS
};

struct setting {
    const char *key; /* "train.optimizer.lr" */
    enum setting_kind kind;
    size_t offset;                    /* of the field in struct settings */
    const char *text;                 /* default of STRING */
    int64_t integer;                  /* default of INTEGER, CHOICE, SWITCH */
    int64_t min_integer, max_integer; /* both allowed */
    double number;                    /* default of NUMBER */
    double min_number, max_number;    /* both allowed */
    const char *choices;              /* "a | b" */
    const char *unit;                 /* "tokens", "" where there is none */
    const char *help;                 /* one sentence, for terminal and docs */
};

const struct setting *settings_table(size_t *n);
const struct setting *settings_find(const char *key); /* NULL: unknown */

/* True for "train", "train.optimizer". */
bool settings_is_section(const char *key);

/* Sets one value from its text; `where` is for messages. */
MUST_USE bool settings_assign(struct settings *settings, const struct setting *setting,
                              const char *text, const char *where, struct error *err);
void settings_assign_none(struct settings *settings, const struct setting *setting);
void settings_assign_list(struct settings *settings, const struct setting *setting,
                          const char *const *items, size_t n);

/* A number from its text, within the range of a NUMBER row; `key` names it in
 * messages. */
MUST_USE bool settings_read_number(const struct setting *setting, const char *key,
                                   const char *text, const char *where, double *number,
                                   struct error *err);

/* Entries of a GROUPS row; their texts are in the settings' arena already. */
void settings_assign_groups(struct settings *settings, const struct setting *setting,
                            const struct param_group *groups, size_t n);

/* The default as it would stand in a run file, numbers in short form. */
void settings_print_default(const struct setting *setting, struct str *out);

/* The error for a key that is not in the table, with the nearest one. Returns false. */
bool settings_unknown_key(const char *where, const char *key, struct error *err);

#endif
