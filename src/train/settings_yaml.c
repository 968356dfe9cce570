/*
 * settings_yaml - walks the events of a YAML file and assigns what it finds.
 *
 * Keys may be nested or dotted (train: {epochs: 3} or train.epochs: 3). Each message
 * starts with file:line:column. Aliases, several documents and repeated keys are
 * errors.
 */
#include <math.h>
#include <string.h>
#include <yaml.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "train/settings_table.h"

enum { MAX_DEPTH = 8, MAX_FILE_BYTES = 1 << 20, MAX_ITEMS = 10000 };

/* The parser, the event it is at, and what was found so far. */
struct walk {
    struct settings *settings; /* being filled; its arena takes all texts */
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    bool has_event;     /* `event` has to be deleted */
    const char *file;   /* name for messages */
    bool *is_set;       /* by row of the table */
    struct error *err;
};

/* "file:line:column" of the current event, in the settings' arena. */
static const char *place(const struct walk *walk)
{
    const yaml_mark_t *mark = &walk->event.start_mark;
    return arena_printf(walk->settings->arena, "%s:%zu:%zu", walk->file, mark->line + 1,
                        mark->column + 1);
}

/* libyaml ends scalars with a NUL; next() has seen that no other is inside. */
static const char *scalar_text(const struct walk *walk)
{
    return (const char *)walk->event.data.scalar.value;
}

/* Moves to the next event. Aliases are refused, and texts that would be cut. */
static bool next(struct walk *walk)
{
    if (walk->has_event) {
        yaml_event_delete(&walk->event);
        walk->has_event = false;
    }
    if (!yaml_parser_parse(&walk->parser, &walk->event)) {
        if (walk->parser.error == YAML_MEMORY_ERROR) {
            return error_set(walk->err, ERROR_RESOURCE,
                             "%s: no memory for the YAML reader", walk->file);
        }
        const yaml_mark_t *mark = &walk->parser.problem_mark;
        return error_set(walk->err, ERROR_USAGE, "%s:%zu:%zu: %s", walk->file,
                         mark->line + 1, mark->column + 1,
                         walk->parser.problem == NULL ? "not YAML"
                                                      : walk->parser.problem);
    }
    walk->has_event = true;
    if (walk->event.type == YAML_ALIAS_EVENT) {
        return error_set(walk->err, ERROR_USAGE, "%s: aliases are not allowed here",
                         place(walk));
    }
    if (walk->event.type == YAML_SCALAR_EVENT &&
        strlen(scalar_text(walk)) != walk->event.data.scalar.length) {
        return error_set(walk->err, ERROR_USAGE, "%s: text with a zero byte in it",
                         place(walk));
    }
    return true;
}

/* A plain (unquoted) null or nothing at all. */
static bool scalar_is_null(const struct walk *walk)
{
    const char *text = scalar_text(walk);
    return walk->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0);
}

/* The current event begins a sequence; ends on its end event. */
static bool read_list(struct walk *walk, const struct setting *setting)
{
    const char **items = NULL;
    size_t n = 0;
    size_t capacity = 0;
    bool done = false;
    for (;;) {
        if (!next(walk)) {
            break;
        }
        if (walk->event.type == YAML_SEQUENCE_END_EVENT) {
            settings_assign_list(walk->settings, setting, items, n);
            done = true;
            break;
        }
        if (walk->event.type != YAML_SCALAR_EVENT || n == MAX_ITEMS) {
            error_set(walk->err, ERROR_USAGE, "%s: %s: expected a list of strings",
                      place(walk), setting->key);
            break;
        }
        /* Texts are copied, because the event goes with the next one. */
        items = mem_reserve_one(items, n, &capacity, sizeof(*items));
        items[n++] = arena_strdup(walk->settings->arena, scalar_text(walk));
    }
    mem_free(items);
    return done;
}

/* The value behind a key of an entry of train.param_groups. */
static bool read_group_field(struct walk *walk, const struct setting *setting,
                             struct param_group *group)
{
    static const char *const keys[] = {"match", "lr", "weight_decay"};
    const char *where = place(walk);
    const char *key = arena_strdup(walk->settings->arena, scalar_text(walk));
    const char *full = arena_printf(walk->settings->arena, "%s.%s", setting->key, key);
    const bool is_match = strcmp(key, "match") == 0;
    double *number = strcmp(key, "lr") == 0             ? &group->lr
                     : strcmp(key, "weight_decay") == 0 ? &group->weight_decay
                                                        : NULL;
    if (!is_match && number == NULL) {
        const char *nearest = str_nearest(key, keys, ARRAY_LENGTH(keys));
        return error_set(walk->err, ERROR_USAGE, "%s: unknown setting %s%s%s%s", where,
                         full, nearest == NULL ? "" : "; did you mean ",
                         nearest == NULL ? ": match, lr or weight_decay" : nearest,
                         nearest == NULL ? "" : "?");
    }
    if (is_match ? group->match != NULL : !isnan(*number)) {
        return error_set(walk->err, ERROR_USAGE, "%s: %s is given twice", where, full);
    }
    if (!next(walk)) {
        return false;
    }
    if (walk->event.type != YAML_SCALAR_EVENT || scalar_is_null(walk)) {
        return error_set(walk->err, ERROR_USAGE, "%s: %s: expected a single value",
                         where, full);
    }
    if (is_match) {
        group->match = arena_strdup(walk->settings->arena, scalar_text(walk));
        return true;
    }
    /* The same range as the value that it replaces. */
    const struct setting *same =
        settings_find(arena_printf(walk->settings->arena, "train.optimizer.%s", key));
    return settings_read_number(same, full, scalar_text(walk), where, number,
                                walk->err);
}

/* The current event should begin a mapping: one entry. */
static bool read_group(struct walk *walk, const struct setting *setting,
                       struct param_group *group)
{
    const char *where = place(walk);
    *group = (struct param_group){.lr = (double)NAN, .weight_decay = (double)NAN};
    if (walk->event.type != YAML_MAPPING_START_EVENT) {
        return error_set(walk->err, ERROR_USAGE,
                         "%s: %s: expected an entry as {match: \"*norm*\", lr: 1e-5}",
                         where, setting->key);
    }
    for (;;) {
        if (!next(walk)) {
            return false;
        }
        if (walk->event.type == YAML_MAPPING_END_EVENT) {
            break;
        }
        if (walk->event.type != YAML_SCALAR_EVENT) {
            return error_set(walk->err, ERROR_USAGE, "%s: expected a key", place(walk));
        }
        if (!read_group_field(walk, setting, group)) {
            return false;
        }
    }
    if (group->match == NULL || group->match[0] == '\0') {
        return error_set(walk->err, ERROR_USAGE,
                         "%s: %s: an entry without match, the pattern of its tensors",
                         where, setting->key);
    }
    return true;
}

/* The current event begins a sequence; ends on its end event. */
static bool read_groups(struct walk *walk, const struct setting *setting)
{
    struct param_group groups[SETTINGS_MAX_GROUPS];
    for (size_t n = 0;; n++) {
        if (!next(walk)) {
            return false;
        }
        if (walk->event.type == YAML_SEQUENCE_END_EVENT) {
            settings_assign_groups(walk->settings, setting, groups, n);
            return true;
        }
        if (n == SETTINGS_MAX_GROUPS) {
            return error_set(walk->err, ERROR_USAGE, "%s: %s: more than %d entries",
                             place(walk), setting->key, SETTINGS_MAX_GROUPS);
        }
        if (!read_group(walk, setting, &groups[n])) {
            return false;
        }
    }
}

/* What a value of this kind looks like, for messages. */
static const char *expected_form(enum setting_kind kind)
{
    return kind == SETTING_LIST     ? "a list, as [\"a\", \"b\"]"
           : kind == SETTING_GROUPS ? "a list, as [{match: \"*norm*\", lr: 1e-5}]"
                                    : "a single value";
}

/* The current event is the value of a key of the table. */
static bool read_value(struct walk *walk, const struct setting *setting)
{
    const char *where = place(walk);
    size_t n = 0;
    /* The table is one array, so the difference is the row's number. */
    const size_t row = (size_t)(setting - settings_table(&n));
    if (walk->is_set[row]) {
        return error_set(walk->err, ERROR_USAGE, "%s: %s is given twice", where,
                         setting->key);
    }
    walk->is_set[row] = true;
    if (walk->event.type == YAML_SEQUENCE_START_EVENT &&
        setting->kind == SETTING_LIST) {
        return read_list(walk, setting);
    }
    if (walk->event.type == YAML_SEQUENCE_START_EVENT &&
        setting->kind == SETTING_GROUPS) {
        return read_groups(walk, setting);
    }
    if (walk->event.type != YAML_SCALAR_EVENT) {
        return error_set(walk->err, ERROR_USAGE, "%s: %s: expected %s", where,
                         setting->key, expected_form(setting->kind));
    }
    if (scalar_is_null(walk)) {
        if (setting->kind != SETTING_STRING && setting->kind != SETTING_LIST &&
            setting->kind != SETTING_GROUPS) {
            return error_set(walk->err, ERROR_USAGE, "%s: %s has no value", where,
                             setting->key);
        }
        settings_assign_none(walk->settings, setting);
        return true;
    }
    return settings_assign(walk->settings, setting, scalar_text(walk), where,
                           walk->err);
}

/* The current event begins a mapping whose keys start with `prefix`. Keys are built
 * whole, section by section, so nested and dotted ones are the same. */
static bool read_mapping(struct walk *walk, const char *prefix, int depth)
{
    if (depth > MAX_DEPTH) {
        return error_set(walk->err, ERROR_USAGE, "%s: nested too deeply", place(walk));
    }
    for (;;) {
        if (!next(walk)) {
            return false;
        }
        if (walk->event.type == YAML_MAPPING_END_EVENT) {
            return true;
        }
        if (walk->event.type != YAML_SCALAR_EVENT) {
            return error_set(walk->err, ERROR_USAGE, "%s: expected a key", place(walk));
        }
        const char *key =
            arena_printf(walk->settings->arena, "%s%s", prefix, scalar_text(walk));
        const char *where = place(walk);
        const struct setting *setting = settings_find(key);
        const bool is_section = settings_is_section(key);
        if (setting == NULL && !is_section) {
            return settings_unknown_key(where, key, walk->err);
        }
        if (!next(walk)) {
            return false;
        }
        if (setting != NULL) {
            if (!read_value(walk, setting)) {
                return false;
            }
        } else if (walk->event.type == YAML_MAPPING_START_EVENT) {
            const char *inner = arena_printf(walk->settings->arena, "%s.", key);
            if (!read_mapping(walk, inner, depth + 1)) {
                return false;
            }
        } else if (walk->event.type != YAML_SCALAR_EVENT || !scalar_is_null(walk)) {
            return error_set(walk->err, ERROR_USAGE,
                             "%s: %s is a section: expected its keys below it", where,
                             key);
        }
    }
}

/* Stream start, one document that is a mapping (or nothing), stream end. */
static bool read_stream(struct walk *walk)
{
    /* Stream start and document start; an empty file has no document. */
    if (!next(walk) || !next(walk)) {
        return false;
    }
    if (walk->event.type == YAML_STREAM_END_EVENT) {
        return true;
    }
    if (!next(walk)) {
        return false;
    }
    if (walk->event.type == YAML_MAPPING_START_EVENT) {
        if (!read_mapping(walk, "", 0)) {
            return false;
        }
    } else if (walk->event.type != YAML_SCALAR_EVENT || !scalar_is_null(walk)) {
        return error_set(walk->err, ERROR_USAGE, "%s: expected settings, as key: value",
                         place(walk));
    }
    if (!next(walk) || !next(walk)) {
        return false;
    }
    if (walk->event.type != YAML_STREAM_END_EVENT) {
        return error_set(walk->err, ERROR_USAGE, "%s: a second document begins here",
                         place(walk));
    }
    return true;
}

/* The event outlives the walk where it failed: place() reads it for the message. */
bool settings_read_text(struct settings *settings, const char *text, size_t length,
                        const char *where, struct error *err)
{
    struct walk walk = {.settings = settings, .file = where, .err = err};
    if (!yaml_parser_initialize(&walk.parser)) {
        return error_set(err, ERROR_RESOURCE, "%s: no memory for the YAML reader",
                         where);
    }
    size_t n = 0;
    settings_table(&n);
    walk.is_set = mem_alloc_array(n, sizeof(*walk.is_set));
    yaml_parser_set_input_string(&walk.parser, (const unsigned char *)text, length);
    const bool done = read_stream(&walk);
    if (walk.has_event) {
        yaml_event_delete(&walk.event);
    }
    yaml_parser_delete(&walk.parser);
    mem_free(walk.is_set);
    return done;
}

bool settings_read_file(struct settings *settings, const char *path, struct error *err)
{
    size_t length = 0;
    char *text = file_read(path, MAX_FILE_BYTES, &length, err);
    if (text == NULL) {
        /* The command line names a file that cannot be read; a lack of memory is not its
         * fault. */
        err->kind = err->kind == ERROR_RESOURCE ? ERROR_RESOURCE : ERROR_USAGE;
        return error_wrap(err, "run file");
    }
    const bool done = settings_read_text(settings, text, length, path, err);
    mem_free(text);
    return done;
}
