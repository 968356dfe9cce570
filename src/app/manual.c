/*
 * manual - lathe.1 in the man macros, which every version of man has.
 */
#include "app/manual.h"

#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "base/error.h"
#include "base/str.h"
#include "lathe/common.h"
#include "train/settings_table.h"

/* Text as roff shows it: a backslash and a hyphen that is to stay one are escaped, and a
 * line may not begin with a control character. */
static void add_text(struct str *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        const bool begins_line = c == text || c[-1] == '\n';
        if (begins_line && (*c == '.' || *c == '\'')) {
            str_add(out, "\\&");
        }
        if (*c == '\\') {
            str_add(out, "\\e");
        } else if (*c == '-') {
            str_add(out, "\\-");
        } else {
            str_add_char(out, *c);
        }
    }
}

/* A paragraph that begins with `head` in bold and `more` behind it. */
static void begin_item(struct str *out, const char *head, const char *more)
{
    str_add(out, ".TP\n\\fB");
    add_text(out, head);
    str_add(out, "\\fR");
    if (more != NULL) {
        str_add(out, " ");
        add_text(out, more);
    }
    str_add_char(out, '\n');
}

/* A command_describe_fn: one command with its options; context is the struct str. */
static void add_command(void *context, const struct command *command,
                        const struct argument_option *options)
{
    struct str *out = context;
    str_add(out, ".SS ");
    add_text(out, "lathe ");
    add_text(out, command->name);
    str_add_char(out, ' ');
    add_text(out, command->usage);
    str_add_char(out, '\n');
    /* The summary stands as a sentence: 'a' to 'A'. */
    str_add_char(out, (char)(command->summary[0] - 'a' + 'A'));
    add_text(out, command->summary + 1);
    str_add(out, ".\n");
    add_text(out, command->help);
    for (const struct argument_option *option = options;
         option != NULL && option->name != NULL; option++) {
        begin_item(out, option->name, option->value);
        add_text(out, option->help);
        str_add_char(out, '\n');
    }
    if (command->examples[0] != '\0') {
        str_add(out, ".PP\n.nf\n");
        add_text(out, command->examples);
        str_add(out, ".fi\n");
    }
}

/* Every setting with its default, choices and unit. */
static void add_settings(struct str *out)
{
    size_t n = 0;
    const struct setting *table = settings_table(&n);
    struct str text = {0};
    for (size_t i = 0; i < n; i++) {
        str_clear(&text);
        str_add(&text, "(default: ");
        settings_print_default(&table[i], &text);
        str_printf(&text, "%s%s)", table[i].unit[0] == '\0' ? "" : " ", table[i].unit);
        begin_item(out, table[i].key, text.text);
        add_text(out, table[i].help);
        if (table[i].choices != NULL) {
            str_add(out, "\n(");
            add_text(out, table[i].choices);
            str_add_char(out, ')');
        }
        str_add_char(out, '\n');
    }
    str_deinit(&text);
}

/* What is the same for all commands. */
static const char page_end[] =
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBLATHE_SECTION_KEY\\fR\n"
    "The setting section.key, over what the run file says: LATHE_TRAIN_EPOCHS=3.\n"
    ".TP\n\\fBXDG_CACHE_HOME\\fR\n"
    "Where tokenised data and measured speeds are kept, in the folder lathe; without "
    "it\n"
    "in ~/.cache.\n"
    ".SH EXIT STATUS\n"
    ".TP\n\\fB0\\fR\nDone.\n"
    ".TP\n\\fB1\\fR\nFailed, or ended by SIGTERM.\n"
    ".TP\n\\fB2\\fR\nWrong command line or settings.\n"
    ".TP\n\\fB3\\fR\nA data or model file is missing or wrong.\n"
    ".TP\n\\fB4\\fR\nOut of memory or disk.\n"
    ".TP\n\\fB130\\fR\nInterrupted by the user.\n";

bool manual_print_page(struct str *out, struct error *err)
{
    str_printf(out,
               ".TH LATHE 1 \"\" \"lathe %s\" \"User Commands\"\n"
               ".SH NAME\nlathe \\- fine-tunes Gemma models\n"
               ".SH SYNOPSIS\n\\fBlathe\\fR \\fICOMMAND\\fR ...\n.br\n"
               "\\fBlathe help\\fR [\\fICOMMAND\\fR]\n"
               ".SH DESCRIPTION\n"
               "Fine-tunes Gemma 3 and Gemma 4 text models on one machine, and does "
               "what belongs to\nit: samples, scores, conversion, curves.\n"
               ".SH COMMANDS\n",
               LATHE_VERSION_STRING);
    for (const struct command *command = command_table(); command->name != NULL;
         command++) {
        if (!command_describe(command, add_command, out, err)) {
            return false;
        }
    }
    str_add(out, ".SH SETTINGS\nKeys of a run file (YAML) and of \\-\\-set. Sections "
                 "nest: train: {epochs: 3}.\n");
    add_settings(out);
    str_add(out, page_end);
    return true;
}
