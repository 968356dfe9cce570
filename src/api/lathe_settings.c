/*
 * lathe_settings - settings through the public interface: the same table, the same
 * checks and the same messages as on the command line.
 */
#include "api/lathe_parts.h"
#include "base/error.h"
#include "base/mem.h"
#include "train/settings_table.h"

struct lathe_settings *lathe_settings_create(void)
{
    struct lathe_settings *settings = mem_alloc(sizeof(*settings));
    settings_init(&settings->settings);
    return settings;
}

void lathe_settings_destroy(struct lathe_settings *settings)
{
    if (settings != NULL) {
        settings_deinit(&settings->settings);
        mem_free(settings);
    }
}

bool lathe_settings_read_file(struct lathe_settings *settings, const char *path,
                              struct lathe_error *error)
{
    struct error err;
    return settings_read_file(&settings->settings, path, &err) ||
           lathe_report(error, &err);
}

bool lathe_settings_read_text(struct lathe_settings *settings, const char *yaml,
                              size_t length, const char *where,
                              struct lathe_error *error)
{
    struct error err;
    return settings_read_text(&settings->settings, yaml, length, where, &err) ||
           lathe_report(error, &err);
}

bool lathe_settings_read_environment(struct lathe_settings *settings,
                                     struct lathe_error *error)
{
    struct error err;
    return settings_read_environment(&settings->settings, &err) ||
           lathe_report(error, &err);
}

/* As --set takes it, so the rules for values are the same. */
bool lathe_settings_set(struct lathe_settings *settings, const char *key,
                        const char *value, struct lathe_error *error)
{
    struct error err;
    return settings_set_key(&settings->settings, key, value, "lathe_settings_set",
                            &err) ||
           lathe_report(error, &err);
}

bool lathe_settings_check(const struct lathe_settings *settings,
                          struct lathe_error *error)
{
    struct error err;
    return settings_check(&settings->settings, &err) || lathe_report(error, &err);
}

/* The text of a str is memory of mem_alloc: the caller takes it over. */
char *lathe_settings_print(const struct lathe_settings *settings)
{
    struct str out = {0};
    settings_print_yaml(&settings->settings, &out);
    return out.text;
}

const char *lathe_settings_key(size_t i)
{
    size_t n = 0;
    const struct setting *table = settings_table(&n);
    return i < n ? table[i].key : NULL;
}

const char *lathe_settings_help(const char *key)
{
    const struct setting *setting = settings_find(key);
    return setting == NULL ? NULL : setting->help;
}

/* Switches have two words, though the table does not list them. */
const char *lathe_settings_choices(const char *key)
{
    const struct setting *setting = settings_find(key);
    if (setting == NULL) {
        return NULL;
    }
    return setting->kind == SETTING_SWITCH ? "true | false" : setting->choices;
}
