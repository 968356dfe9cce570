/*
 * settings_print - settings as a run file, and the table as a reference page.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/settings_table.h"

/* Writes the i-th of "a | b | c". */
static void print_choice(const char *choices, int index, struct str *out)
{
    const char *from = choices;
    for (; index > 0; index--) {
        from = strstr(from, " | ") + 3;
    }
    const char *bar = strstr(from, " | ");
    str_add_bytes(out, from, bar == NULL ? strlen(from) : (size_t)(bar - from));
}

/* The character of valid UTF-8 at text[0 .. length), length 1 to 4. */
static unsigned decode_utf8(const char *text, int length)
{
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    unsigned character = (unsigned char)text[0] & first_bits[length];
    for (int i = 1; i < length; i++) {
        character = character << 6 | ((unsigned char)text[i] & 0x3F);
    }
    return character;
}

/*
 * Whether a double-quoted scalar gives the character back as it is: YAML refuses
 * control characters and the byte order mark, and folds line breaks, of which it knows
 * five.
 */
static bool is_plain_in_quotes(unsigned character)
{
    if (character == '"' || character == '\\' || character == 0xFEFF) {
        return false;
    }
    const bool is_control = character < 0x20 || (0x7F <= character && character < 0xA0);
    const bool is_line_break = character == 0x2028 || character == 0x2029;
    const bool is_no_character = character == 0xFFFE || character == 0xFFFF;
    return !is_control && !is_line_break && !is_no_character;
}

/* A double-quoted YAML scalar. A byte that is no UTF-8 is written as the character of
 * its number: nothing else would leave the file readable. */
static void print_quoted(const char *text, struct str *out)
{
    str_add_char(out, '"');
    for (const char *c = text; *c != '\0';) {
        const int length = str_utf8_length(c, strnlen(c, 4));
        const unsigned character =
            length > 0 ? decode_utf8(c, length) : (unsigned char)*c;
        if (length > 0 && is_plain_in_quotes(character)) {
            str_add_bytes(out, c, (size_t)length);
        } else if (character == '"' || character == '\\') {
            str_printf(out, "\\%c", (int)character);
        } else if (character == '\n') {
            str_add(out, "\\n");
        } else if (character == '\t') {
            str_add(out, "\\t");
        } else {
            str_printf(out, character < 0x100 ? "\\x%02x" : "\\u%04x", character);
        }
        c += length > 0 ? length : 1;
    }
    str_add_char(out, '"');
}

/* An unquoted null reads as absent, a quoted one as the word. */
static void print_string(const char *text, struct str *out)
{
    if (text == NULL) {
        str_add(out, "null");
    } else {
        print_quoted(text, out);
    }
}

/* In flow style, one line. */
static void print_list(const struct string_list *list, struct str *out)
{
    str_add_char(out, '[');
    for (int64_t i = 0; i < list->n; i++) {
        str_add(out, i == 0 ? "" : ", ");
        print_quoted(list->items[i], out);
    }
    str_add_char(out, ']');
}

/* With as few digits as give the same double back; 17 always do. */
static void print_number(double value, struct str *out)
{
    char text[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    str_add(out, text);
}

/* In flow style, with what each entry was given. */
static void print_groups(const struct param_group_list *groups, struct str *out)
{
    str_add_char(out, '[');
    for (int64_t i = 0; i < groups->n; i++) {
        const struct param_group *group = &groups->items[i];
        str_add(out, i == 0 ? "{match: " : ", {match: ");
        print_quoted(group->match, out);
        if (!isnan(group->lr)) {
            str_add(out, ", lr: ");
            print_number(group->lr, out);
        }
        if (!isnan(group->weight_decay)) {
            str_add(out, ", weight_decay: ");
            print_number(group->weight_decay, out);
        }
        str_add_char(out, '}');
    }
    str_add_char(out, ']');
}

/* As the YAML reader takes it back. */
static void print_value(const struct setting *setting, const void *field,
                        struct str *out)
{
    switch (setting->kind) {
    case SETTING_STRING:
        print_string(*(const char *const *)field, out);
        return;
    case SETTING_CHOICE:
        print_choice(setting->choices, *(const int *)field, out);
        return;
    case SETTING_INTEGER:
        str_printf(out, "%lld", (long long)*(const int64_t *)field);
        return;
    case SETTING_NUMBER:
        print_number(*(const double *)field, out);
        return;
    case SETTING_SWITCH:
        str_add(out, *(const bool *)field ? "true" : "false");
        return;
    case SETTING_LIST:
        print_list(field, out);
        return;
    case SETTING_GROUPS:
        print_groups(field, out);
        return;
    }
    UNREACHABLE();
}

/* Length of what two keys share up to and including a dot. "train.schedule.kind" and
 * "train.schedule.final_lr" share "train.schedule.". */
static size_t shared_sections(const char *a, const char *b)
{
    size_t shared = 0;
    for (size_t i = 0; a[i] == b[i] && a[i] != '\0'; i++) {
        if (a[i] == '.') {
            shared = i + 1;
        }
    }
    return shared;
}

/* Sections are opened as the table comes to them, which has keys of one section
 * together. */
void settings_print_yaml(const struct settings *settings, struct str *out)
{
    size_t n = 0;
    const struct setting *table = settings_table(&n);
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        const char *key = table[i].key;
        /* Open the sections that the key before was not in. */
        size_t at = shared_sections(before, key);
        int depth = 0;
        /* So deep are the sections that stay open. */
        for (size_t c = 0; c < at; c++) {
            depth += key[c] == '.';
        }
        /* One line for each section that begins here. */
        for (const char *dot; (dot = strchr(key + at, '.')) != NULL; depth++) {
            str_printf(out, "%*s%.*s:\n", 2 * depth, "", (int)(dot - key - (long)at),
                       key + at);
            at = (size_t)(dot - key) + 1;
        }
        str_printf(out, "%*s%s: ", 2 * depth, "", key + at);
        print_value(&table[i], (const char *)settings + table[i].offset, out);
        str_add_char(out, '\n');
        before = key;
    }
}

/* For a Markdown table: the bars between choices are escaped. */
static void print_range(const struct setting *setting, struct str *out)
{
    if (setting->kind == SETTING_CHOICE) {
        for (const char *c = setting->choices; *c != '\0'; c++) {
            str_add(out, *c == '|' ? "\\" : "");
            str_add_char(out, *c);
        }
    } else if (setting->kind == SETTING_INTEGER && setting->max_integer == INT64_MAX) {
        str_printf(out, "%lld or more", (long long)setting->min_integer);
    } else if (setting->kind == SETTING_INTEGER) {
        str_printf(out, "%lld to %lld", (long long)setting->min_integer,
                   (long long)setting->max_integer);
    } else if (setting->kind == SETTING_NUMBER) {
        str_printf(out, "%g to %g", setting->min_number, setting->max_number);
    } else if (setting->kind == SETTING_SWITCH) {
        str_add(out, "true, false");
    } else if (setting->kind == SETTING_GROUPS) {
        str_add(out, "list of {match, lr, weight_decay}");
    } else {
        str_add(out, setting->kind == SETTING_LIST ? "list of text" : "text");
    }
}

/* Numbers as people write them here, %g. */
void settings_print_default(const struct setting *setting, struct str *out)
{
    if (setting->kind == SETTING_NUMBER) {
        str_printf(out, "%g", setting->number);
        return;
    }
    struct settings defaults;
    settings_init(&defaults);
    print_value(setting, (const char *)&defaults + setting->offset, out);
    settings_deinit(&defaults);
}

void settings_print_summary(struct str *out)
{
    size_t n = 0;
    const struct setting *table = settings_table(&n);
    for (size_t i = 0; i < n; i++) {
        str_printf(out, "%s: ", table[i].key);
        settings_print_default(&table[i], out);
        if (table[i].unit[0] != '\0') {
            str_printf(out, "  [%s]", table[i].unit);
        }
        str_add(out, "\n    ");
        str_add(out, table[i].help);
        if (table[i].kind == SETTING_CHOICE) {
            str_printf(out, " (%s)", table[i].choices);
        }
        str_add_char(out, '\n');
    }
}

void settings_print_reference(struct str *out)
{
    size_t n = 0;
    const struct setting *table = settings_table(&n);
    str_add(out,
            "# Settings\n\nMade by `lathe settings` from the table in "
            "`src/train/settings.def`. In a run file sections nest "
            "(`train: {epochs: 3}`); on the command line `--set train.epochs=3`; in "
            "the environment `LATHE_TRAIN_EPOCHS=3`. The command line wins over the "
            "environment, which wins over the file.\n\n"
            "| key | default | allowed | unit | meaning |\n"
            "| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < n; i++) {
        str_printf(out, "| `%s` | ", table[i].key);
        settings_print_default(&table[i], out);
        str_add(out, " | ");
        print_range(&table[i], out);
        str_printf(out, " | %s | %s |\n", table[i].unit, table[i].help);
    }
}
