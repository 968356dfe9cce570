/*
 * settings - the table, values from text, and values to text. The YAML walk is in
 * settings_yaml.c.
 */
#include "train/settings.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "train/settings_table.h"

/*
 * A row of settings.def; fields that its kind does not have are zero. Each macro takes
 * a row's columns by the names in settings.def; the field gives only its offset, and
 * the kind its type.
 */
static const struct setting table[] = {
#define AT(field) offsetof(struct settings, field)
#define STRING(key_, field, default_, unit_, help_) \
    {.key = #key_,                                  \
     .kind = SETTING_STRING,                        \
     .offset = AT(field),                           \
     .text = (default_),                            \
     .unit = (unit_),                               \
     .help = (help_)},
#define CHOICE(key_, field, default_, choices_, help_) \
    {.key = #key_,                                     \
     .kind = SETTING_CHOICE,                           \
     .offset = AT(field),                              \
     .integer = (default_),                            \
     .choices = (choices_),                            \
     .unit = "",                                       \
     .help = (help_)},
#define INTEGER(key_, field, default_, min_, max_, unit_, help_) \
    {.key = #key_,                                               \
     .kind = SETTING_INTEGER,                                    \
     .offset = AT(field),                                        \
     .integer = (default_),                                      \
     .min_integer = (min_),                                      \
     .max_integer = (max_),                                      \
     .unit = (unit_),                                            \
     .help = (help_)},
#define NUMBER(key_, field, default_, min_, max_, unit_, help_) \
    {.key = #key_,                                              \
     .kind = SETTING_NUMBER,                                    \
     .offset = AT(field),                                       \
     .number = (default_),                                      \
     .min_number = (min_),                                      \
     .max_number = (max_),                                      \
     .unit = (unit_),                                           \
     .help = (help_)},
#define SWITCH(key_, field, default_, help_) \
    {.key = #key_,                           \
     .kind = SETTING_SWITCH,                 \
     .offset = AT(field),                    \
     .integer = (default_),                  \
     .unit = "",                             \
     .help = (help_)},
#define LIST(key_, field, help_) \
    {.key = #key_,               \
     .kind = SETTING_LIST,       \
     .offset = AT(field),        \
     .unit = "",                 \
     .help = (help_)},
#define GROUPS(key_, field, help_) \
    {.key = #key_,                 \
     .kind = SETTING_GROUPS,       \
     .offset = AT(field),          \
     .unit = "",                   \
     .help = (help_)},
#include "train/settings.def"
#undef GROUPS
#undef STRING
#undef CHOICE
#undef INTEGER
#undef NUMBER
#undef SWITCH
#undef LIST
#undef AT
};

const struct setting *settings_table(size_t *n)
{
    *n = ARRAY_LENGTH(table);
    return table;
}

/* A search: the table is short, and keys are looked up once per run. */
const struct setting *settings_find(const char *key)
{
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        if (strcmp(table[i].key, key) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* Some key begins with it and a dot. */
bool settings_is_section(const char *key)
{
    const size_t length = strlen(key);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        if (strncmp(table[i].key, key, length) == 0 && table[i].key[length] == '.') {
            return true;
        }
    }
    return false;
}

/* Where the setting's value lies. */
static void *field_of(struct settings *settings, const struct setting *setting)
{
    return (char *)settings + setting->offset;
}

/* Default strings are literals; only what is assigned lives in the arena. */
void settings_init(struct settings *settings)
{
    /* Everything else is in the table, so a field that it leaves out is zero. */
    *settings = (struct settings){.arena = arena_create()};
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        void *field = field_of(settings, &table[i]);
        switch (table[i].kind) {
        case SETTING_STRING:
            *(const char **)field = table[i].text;
            break;
        case SETTING_CHOICE:
            *(int *)field = (int)table[i].integer;
            break;
        case SETTING_INTEGER:
            *(int64_t *)field = table[i].integer;
            break;
        case SETTING_NUMBER:
            *(double *)field = table[i].number;
            break;
        case SETTING_SWITCH:
            *(bool *)field = table[i].integer != 0;
            break;
        case SETTING_LIST:
            *(struct string_list *)field = (struct string_list){0};
            break;
        case SETTING_GROUPS:
            *(struct param_group_list *)field = (struct param_group_list){0};
            break;
        }
    }
}

void settings_deinit(struct settings *settings)
{
    arena_destroy(settings->arena);
    settings->arena = NULL;
}

/* ---- values from text ---- */

/* The index of `text` in "a | b | c", or -1. Choices are separated by " | ", as they
 * are shown. */
static int choice_index(const char *choices, const char *text)
{
    int index = 0;
    for (const char *from = choices; *from != '\0'; index++) {
        const char *bar = strstr(from, " | ");
        const size_t length = bar == NULL ? strlen(from) : (size_t)(bar - from);
        if (strlen(text) == length && strncmp(from, text, length) == 0) {
            return index;
        }
        from += length + (bar == NULL ? 0 : 3);
    }
    return -1;
}

/* "4096", "512M", "1.5GiB": bytes, in powers of 1024. Whole numbers without a suffix keep
 * all their digits; fractions of a byte are cut. */
static bool read_bytes(const char *text, long long *value)
{
    static const char letters[] = "KMG";
    char *end = NULL;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end != text && *end == '\0') {
        return errno == 0;
    }
    /* Digits and a point only: strtod knows more, as 1e3 and 0x10. */
    const size_t n_digits = strspn(text, "0123456789.");
    const double number = strtod(text, &end);
    const char *letter = n_digits > 0 && end == text + n_digits && *end != '\0'
                             ? strchr(letters, *end)
                             : NULL;
    if (letter == NULL || (end[1] != '\0' && strcmp(end + 1, "iB") != 0)) {
        return false;
    }
    const double bytes = ldexp(number, 10 * (int)(letter - letters + 1));
    if (bytes >= 0x1p63) {
        return false;
    }
    *value = (long long)bytes;
    return true;
}

/* A size in bytes may have a suffix. */
static bool set_bytes(const struct setting *setting, const char *text,
                      const char *where, int64_t *field, struct error *err)
{
    long long value = 0;
    if (!read_bytes(text, &value) || value < setting->min_integer) {
        return error_set(err, ERROR_USAGE,
                         "%s: %s: expected bytes, as 4000000000, 512M or 1.5GiB "
                         "(K, M, G, KiB, MiB, GiB: powers of 1024), got '%s'",
                         where, setting->key, text);
    }
    *field = value;
    return true;
}

/* The whole text is the number; strtoll sets errno where it does not fit. */
static bool set_integer(const struct setting *setting, const char *text,
                        const char *where, int64_t *field, struct error *err)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0) {
        return error_set(err, ERROR_USAGE, "%s: %s: expected a whole number, got '%s'",
                         where, setting->key, text);
    }
    if (value < setting->min_integer || value > setting->max_integer) {
        if (setting->max_integer == INT64_MAX) {
            return error_set(err, ERROR_USAGE, "%s: %s: %lld is below %lld, the least",
                             where, setting->key, value,
                             (long long)setting->min_integer);
        }
        return error_set(err, ERROR_USAGE, "%s: %s: %lld is not within %lld to %lld",
                         where, setting->key, value, (long long)setting->min_integer,
                         (long long)setting->max_integer);
    }
    *field = value;
    return true;
}

/* inf and nan are numbers to strtod, but no settings. */
bool settings_read_number(const struct setting *setting, const char *key,
                          const char *text, const char *where, double *number,
                          struct error *err)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        return error_set(err, ERROR_USAGE, "%s: %s: expected a number, got '%s'", where,
                         key, text);
    }
    if (value < setting->min_number || value > setting->max_number) {
        return error_set(err, ERROR_USAGE, "%s: %s: %g is not within %g to %g", where,
                         key, value, setting->min_number, setting->max_number);
    }
    *number = value;
    return true;
}

/* Some of the words of YAML 1.1, in lower case. */
static bool set_switch(const struct setting *setting, const char *text,
                       const char *where, bool *field, struct error *err)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 ||
        strcmp(text, "on") == 0) {
        *field = true;
        return true;
    }
    if (strcmp(text, "false") == 0 || strcmp(text, "no") == 0 ||
        strcmp(text, "off") == 0) {
        *field = false;
        return true;
    }
    return error_set(err, ERROR_USAGE, "%s: %s: expected true or false, got '%s'",
                     where, setting->key, text);
}

/* A single value for a list is a list of one. */
bool settings_assign(struct settings *settings, const struct setting *setting,
                     const char *text, const char *where, struct error *err)
{
    void *field = field_of(settings, setting);
    switch (setting->kind) {
    case SETTING_STRING:
        *(const char **)field = arena_strdup(settings->arena, text);
        return true;
    case SETTING_CHOICE: {
        /* The order of the choices is that of the enum: settings.def says so. */
        const int index = choice_index(setting->choices, text);
        if (index < 0) {
            return error_set(err, ERROR_USAGE, "%s: %s: expected %s, got '%s'", where,
                             setting->key, setting->choices, text);
        }
        *(int *)field = index;
        return true;
    }
    case SETTING_INTEGER:
        return strcmp(setting->unit, "bytes") == 0
                   ? set_bytes(setting, text, where, field, err)
                   : set_integer(setting, text, where, field, err);
    case SETTING_NUMBER:
        return settings_read_number(setting, setting->key, text, where, field, err);
    case SETTING_SWITCH:
        return set_switch(setting, text, where, field, err);
    case SETTING_LIST:
        settings_assign_list(settings, setting, &text, 1);
        return true;
    case SETTING_GROUPS:
        return error_set(err, ERROR_USAGE,
                         "%s: %s: expected a list, as [{match: \"*norm*\", lr: 1e-5}]",
                         where, setting->key);
    }
    UNREACHABLE();
}

/* Strings can be absent, and lists empty. */
void settings_assign_none(struct settings *settings, const struct setting *setting)
{
    if (setting->kind == SETTING_LIST) {
        settings_assign_list(settings, setting, NULL, 0);
        return;
    }
    if (setting->kind == SETTING_GROUPS) {
        settings_assign_groups(settings, setting, NULL, 0);
        return;
    }
    ASSERT(setting->kind == SETTING_STRING);
    *(const char **)field_of(settings, setting) = NULL;
}

/* Copies: the caller's items may go. */
void settings_assign_list(struct settings *settings, const struct setting *setting,
                          const char *const *items, size_t n)
{
    ASSERT(setting->kind == SETTING_LIST);
    const char **copy = arena_alloc_array(settings->arena, n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++) {
        copy[i] = arena_strdup(settings->arena, items[i]);
    }
    *(struct string_list *)field_of(settings, setting) =
        (struct string_list){.items = copy, .n = (int64_t)n};
}

/* The array is copied, as items of lists are. */
void settings_assign_groups(struct settings *settings, const struct setting *setting,
                            const struct param_group *groups, size_t n)
{
    ASSERT(setting->kind == SETTING_GROUPS);
    struct param_group *copy = arena_alloc_array(settings->arena, n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++) {
        copy[i] = groups[i];
    }
    *(struct param_group_list *)field_of(settings, setting) =
        (struct param_group_list){.items = copy, .n = (int64_t)n};
}

/* "train.optimizer.lr" -> "LATHE_TRAIN_OPTIMIZER_LR" Both `.` and the underscores of a
 * key become underscores; no two keys of the table collide by that. */
static void environment_name(const char *key, struct str *name)
{
    str_clear(name);
    str_add(name, "LATHE_");
    for (const char *c = key; *c != '\0'; c++) {
        str_add_char(name, *c == '.' ? '_' : (char)toupper((unsigned char)*c));
    }
}

/* One value given as YAML text, for a key of the table. The key may be dotted, so one
 * line is a whole run file. */
static bool set_from_yaml(struct settings *settings, const char *key, const char *value,
                          const char *where, struct error *err)
{
    struct str text = {0};
    str_printf(&text, "%s: %s\n", key, value);
    const bool done = settings_read_text(settings, text.text, text.length, where, err);
    str_deinit(&text);
    return done;
}

/* Whether it is LATHE_SECTION_..., of a section of the table: a variable that is meant
 * as a setting. `key` gets the key that the name would have, as far as that can be
 * told: its first underscore stands for the dot. */
static bool is_meant_as_setting(const char *variable, struct str *key)
{
    static const char prefix[] = "LATHE_";
    str_clear(key);
    if (strncmp(variable, prefix, strlen(prefix)) != 0) {
        return false;
    }
    bool has_section = false;
    for (const char *c = variable + strlen(prefix); *c != '\0' && *c != '='; c++) {
        if (*c == '_' && !has_section) {
            has_section = true;
            if (!settings_is_section(str_text(key))) {
                return false;
            }
            str_add_char(key, '.');
        } else {
            str_add_char(key, (char)tolower((unsigned char)*c));
        }
    }
    return has_section;
}

/* A misspelled variable would otherwise train with another setting than meant. */
static bool check_environment(struct error *err)
{
    struct str key = {0};
    struct str name = {0};
    bool done = true;
    for (char *const *variable = environ; *variable != NULL && done; variable++) {
        const size_t length = strcspn(*variable, "=");
        bool is_known = !is_meant_as_setting(*variable, &key);
        for (size_t i = 0; i < ARRAY_LENGTH(table) && !is_known; i++) {
            environment_name(table[i].key, &name);
            is_known =
                name.length == length && strncmp(name.text, *variable, length) == 0;
        }
        if (!is_known) {
            str_clear(&name);
            str_add_bytes(&name, *variable, length);
            done = settings_unknown_key(str_text(&name), str_text(&key), err);
        }
    }
    str_deinit(&key);
    str_deinit(&name);
    return done;
}

bool settings_read_environment(struct settings *settings, struct error *err)
{
    if (!check_environment(err)) {
        return false;
    }
    struct str name = {0};
    bool done = true;
    for (size_t i = 0; i < ARRAY_LENGTH(table) && done; i++) {
        environment_name(table[i].key, &name);
        const char *value = getenv(name.text);
        if (value == NULL) {
            continue;
        }
        const char *where = name.text;
        /* Plain values are taken as they are; lists need YAML. */
        done = table[i].kind == SETTING_LIST || table[i].kind == SETTING_GROUPS
                   ? set_from_yaml(settings, table[i].key, value, where, err)
                   : settings_assign(settings, &table[i], value, where, err);
    }
    str_deinit(&name);
    return done;
}

/* Through YAML, so that null, quotes and lists mean what they mean in a run file. */
bool settings_set_key(struct settings *settings, const char *key, const char *value,
                      const char *where, struct error *err)
{
    return settings_find(key) == NULL ? settings_unknown_key(where, key, err)
                                      : set_from_yaml(settings, key, value, where, err);
}

bool settings_set(struct settings *settings, const char *assignment, struct error *err)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment) {
        return error_set(err, ERROR_USAGE, "--set %s: expected key=value", assignment);
    }
    /* Zeroed, so the copy ends with a NUL. */
    char *key = arena_alloc(settings->arena, (size_t)(equals - assignment) + 1);
    memcpy(key, assignment, (size_t)(equals - assignment));
    return settings_set_key(settings, key, equals + 1, "--set", err);
}

/* A section is worth a message of its own: its name is right, the place is not. */
bool settings_unknown_key(const char *where, const char *key, struct error *err)
{
    /* For str_nearest, which wants a plain list. */
    const char *keys[ARRAY_LENGTH(table)];
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        keys[i] = table[i].key;
    }
    const char *nearest = str_nearest(key, keys, ARRAY_LENGTH(table));
    if (settings_is_section(key)) {
        return error_set(err, ERROR_USAGE, "%s: %s is a section: give its keys", where,
                         key);
    }
    if (nearest == NULL) {
        return error_set(err, ERROR_USAGE,
                         "%s: unknown setting %s; `lathe settings` lists them", where,
                         key);
    }
    return error_set(err, ERROR_USAGE, "%s: unknown setting %s; did you mean %s?",
                     where, key, nearest);
}
