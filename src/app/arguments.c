/*
 * arguments - see the header.
 */
#include "app/arguments.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

/* Columns of the help: names of options, then what they mean. */
enum { LEFT_WIDTH = 24, TEXT_WIDTH = 56 };

/* The option that `text` names, up to an '='; NULL: none. The whole name must be given:
 * a prefix that is unique today may not be tomorrow, and scripts would break.
 * "--set=a=b" is the option --set. */
static const struct argument_option *find(const struct argument_option *options,
                                          const char *text)
{
    const size_t length = strcspn(text, "=");
    for (const struct argument_option *option = options; option->name != NULL;
         option++) {
        if (strlen(option->name) == length &&
            strncmp(option->name, text, length) == 0) {
            return option;
        }
    }
    return NULL;
}

/* An option that is not in the table; a misspelled one is named with the nearest that
 * is. */
static bool unknown(const struct argument_option *options, const char *text,
                    struct error *err)
{
    const char *names[ARGUMENTS_MAX];
    size_t n = 0;
    for (; options[n].name != NULL && n < ARGUMENTS_MAX; n++) {
        names[n] = options[n].name;
    }
    const char *nearest = str_nearest(text, names, n);
    return error_set(err, ERROR_USAGE, "unknown option %s%s%s%s", text,
                     nearest == NULL ? "" : "; did you mean ",
                     nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

/* Puts a value where the table says: over the one before (text), or behind it (list).
 * Values are borrowed from argv, which lives as long as the program. */
static bool store(const struct argument_option *option, const char *value,
                  struct error *err)
{
    if (option->kind == ARGUMENT_TEXT) {
        *(const char **)option->target = value;
        return true;
    }
    struct argument_list *list = option->target;
    if (list->n == ARGUMENTS_MAX) {
        return error_set(err, ERROR_USAGE, "%s is given more than %d times",
                         option->name, ARGUMENTS_MAX);
    }
    list->items[list->n++] = value;
    return true;
}

/* One walk from left to right: what begins with "-" is looked up until "--" comes, the
 * rest is kept in order. A single "-" is no option. Targets are written as the walk
 * goes, so after a failure they are not to be used. The first fault ends the walk: one
 * clear line is worth more than a list. */
bool arguments_parse(struct arguments *arguments, int argc, char *const *argv,
                     const struct argument_option *options, struct error *err)
{
    arguments->n = 0;
    bool takes_options = true;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (takes_options && strcmp(text, "--") == 0) {
            takes_options = false;
            continue;
        }
        if (!takes_options || text[0] != '-' || text[1] == '\0') {
            if (arguments->n == ARGUMENTS_MAX) {
                return error_set(err, ERROR_USAGE, "too many arguments");
            }
            arguments->items[arguments->n++] = text;
            continue;
        }
        /* From here on it is an option. */
        const struct argument_option *option = find(options, text);
        if (option == NULL) {
            return unknown(options, text, err);
        }
        /* The value stands behind the first "=" or is the next argument, whatever that
         * looks like. */
        const char *equals = strchr(text, '=');
        if (option->kind == ARGUMENT_SWITCH) {
            if (equals != NULL) {
                return error_set(err, ERROR_USAGE, "%s takes no value", option->name);
            }
            *(bool *)option->target = true;
            continue;
        }
        if (equals == NULL && i + 1 == argc) {
            return error_set(err, ERROR_USAGE, "%s needs a value: %s %s", option->name,
                             option->name, option->value);
        }
        if (!store(option, equals != NULL ? equals + 1 : argv[++i], err)) {
            return false;
        }
    }
    return true;
}

/* Appends text in lines of at most TEXT_WIDTH columns, broken between words, each but the
 * first behind the left column. */
static void add_wrapped(struct str *out, const char *text)
{
    size_t used = 0;
    for (const char *word = text; *word != '\0';) {
        const size_t length = strcspn(word, " ");
        if (used > 0 && used + 1 + length > TEXT_WIDTH) {
            str_printf(out, "\n%*s", LEFT_WIDTH, "");
            used = 0;
        }
        str_printf(out, "%s%.*s", used == 0 ? "" : " ", (int)length, word);
        used += length + (used > 0);
        word += length + strspn(word + length, " ");
    }
    str_add_char(out, '\n');
}

/* Names and values in one column; a longer one pushes its text aside. */
void arguments_print_help(const struct argument_option *options, struct str *out)
{
    for (const struct argument_option *option = options; option->name != NULL;
         option++) {
        /* Names are short by choice; a longer one would be cut, not overrun. */
        char left[64];
        snprintf(left, sizeof(left), "%s%s%s", option->name,
                 option->value == NULL ? "" : " ",
                 option->value == NULL ? "" : option->value);
        str_printf(out, "  %-*s ", LEFT_WIDTH - 3, left);
        add_wrapped(out, option->help);
    }
}
