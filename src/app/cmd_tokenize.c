/*
 * cmd_tokenize - lathe tokenize: ids of a text, the text of ids, or rows of training.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/data_arguments.h"
#include "app/show_rows.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/tokenizer.h"
#include "train/model_source.h"

/* One line, which --decode reads back. */
static void print_ids(const struct token_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        printf("%s%d", i == 0 ? "" : " ", list->ids[i]);
    }
    putchar('\n');
}

/* Ids of the text, with the tokens that the file puts around one unless --no-bos. */
static void encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                   bool adds_special)
{
    struct token_list list = {0};
    tokenizer_encode(tokenizer, text, length, adds_special, &list);
    print_ids(&list);
    token_list_deinit(&list);
}

/* Ids separated by spaces, commas or line ends. Brackets pass as separators too, so a
 * JSON array can be pasted. strtol needs the look at errno, as it clips what does not
 * fit a long. */
static bool read_ids(const struct tokenizer *tokenizer, const char *text,
                     struct token_list *list, struct error *err)
{
    const char *separators = " ,\n\t\r[]";
    for (const char *at = text + strspn(text, separators); *at != '\0';
         at += strspn(at, separators)) {
        char *end = NULL;
        errno = 0;
        const long id = strtol(at, &end, 10);
        if (end == at || errno != 0 || id < 0 || id >= tokenizer_n_tokens(tokenizer)) {
            return error_set(err, ERROR_USAGE,
                             "--decode: expected ids from 0 to %d, got '%.20s'",
                             (int)tokenizer_n_tokens(tokenizer) - 1, at);
        }
        token_list_add(list, (int32_t)id, 0);
        at = end;
    }
    return true;
}

/* Special tokens are shown: who asks for the text of ids wants to see all of them.
 * Bytes are written as they are, since they may hold NUL or broken UTF-8. */
static bool decode(const struct tokenizer *tokenizer, const char *text,
                   struct error *err)
{
    struct token_list list = {0};
    struct str out = {0};
    const bool done = read_ids(tokenizer, text, &list, err);
    if (done) {
        tokenizer_decode(tokenizer, list.ids, list.n, false, &out);
        fwrite(str_text(&out), 1, out.length, stdout);
        putchar('\n');
    }
    str_deinit(&out);
    token_list_deinit(&list);
    return done;
}

/* What the command line gives. */
struct tokenize_arguments {
    const char *file;
    const char *show;                      /* path of rows */
    const char *rows;                      /* how many of them, or NULL */
    struct data_arguments data;            /* for --show */
    bool skips_bos, decodes, is_per_token; /* switches */
    bool wants_help;
};

/* Ids or text of the one text that was given. It is read before the tokenizer, whose
 * reading takes longer: a wrong path is then told at once. */
static bool tokenize_text(const struct tokenize_arguments *given,
                          const struct arguments *arguments, struct error *err)
{
    size_t length = 0;
    char *text = given->file != NULL
                     ? file_read(given->file, TOKENIZER_MAX_BYTES, &length, err)
                     : mem_strdup(arguments->items[1]);
    /* Only reading a file can fail. */
    if (text == NULL) {
        return false;
    }
    length = given->file != NULL ? length : strlen(text);
    /* Of the model only the tokenizer is opened: no weights are needed. */
    struct tokenizer *tokenizer = model_source_tokenizer(arguments->items[0], err);
    bool done = tokenizer != NULL;
    if (done && given->decodes) {
        done = decode(tokenizer, text, err);
    } else if (done) {
        encode(tokenizer, text, length, !given->skips_bos);
    }
    tokenizer_destroy(tokenizer);
    mem_free(text);
    return done;
}

/* The rows of a file. All of them unless --rows says how many. */
static bool tokenize_rows(struct tokenize_arguments *given, const char *model,
                          struct error *err)
{
    struct show_rows_options options = {.model = model,
                                        .path = given->show,
                                        .data = &given->data,
                                        .is_per_token = given->is_per_token};
    if (given->rows != NULL) {
        char *end = NULL;
        options.max_rows = strtoll(given->rows, &end, 10);
        if (*end != '\0' || options.max_rows < 1) {
            return error_set(err, ERROR_USAGE,
                             "--rows: expected a number of 1 or more, got '%s'",
                             given->rows);
        }
    }
    const bool done = show_rows(&options, err);
    data_arguments_deinit(&given->data);
    return done;
}

/* Options that only --show takes, and the other way round. With --file or --show the
 * text's place among the arguments must be empty. */
static bool check_arguments(const struct command *command,
                            const struct tokenize_arguments *given,
                            const struct arguments *arguments, struct error *err)
{
    const bool is_text = given->file == NULL && given->show == NULL;
    const bool has_rows_options =
        given->data.run != NULL || given->data.format != NULL ||
        given->data.sets.n > 0 || given->rows != NULL || given->is_per_token;
    if (arguments->n != (is_text ? 2 : 1) ||
        (given->show != NULL && given->file != NULL)) {
        return command_usage_error(
            command, "expected a model and one of a text, --file and --show", err);
    }
    if (given->show == NULL && has_rows_options) {
        return command_usage_error(
            command, "--format, --run, --set, --rows and --per-token are for --show",
            err);
    }
    if (given->show != NULL && (given->decodes || given->skips_bos)) {
        return command_usage_error(command, "--show takes no --decode and no --no-bos",
                                   err);
    }
    return true;
}

/* TOKENIZER_MAX_BYTES is what the tokenizer takes. */
bool cmd_tokenize(const struct command *command, int argc, char *const *argv,
                  struct error *err)
{
    struct tokenize_arguments given = {0};
    const struct argument_option options[] = {
        {"--file", "FILE", ARGUMENT_TEXT, &given.file, "take the text from a file"},
        {"--no-bos", NULL, ARGUMENT_SWITCH, &given.skips_bos,
         "no token in front of the text"},
        {"--decode", NULL, ARGUMENT_SWITCH, &given.decodes, "from ids to text"},
        {"--show", "ROWS.jsonl", ARGUMENT_TEXT, &given.show,
         "what rows become in training"},
        {"--format", "NAME", ARGUMENT_TEXT, &given.data.format,
         "show: what a row holds, as chat or instruction"},
        {"--run", "RUN.yaml", ARGUMENT_TEXT, &given.data.run,
         "show: with the data settings of a run file"},
        {"--set", "KEY=VALUE", ARGUMENT_LIST, &given.data.sets,
         "show: a setting, as data.loss_on=all; again for more"},
        {"--rows", "N", ARGUMENT_TEXT, &given.rows, "show: only the first N rows"},
        {"--per-token", NULL, ARGUMENT_SWITCH, &given.is_per_token,
         "show: a line for each token"},
        {"--help", NULL, ARGUMENT_SWITCH, &given.wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &given.wants_help, &arguments,
                       err)) {
        return false;
    }
    if (given.wants_help) {
        return true;
    }
    if (!check_arguments(command, &given, &arguments, err)) {
        return false;
    }
    return given.show != NULL ? tokenize_rows(&given, arguments.items[0], err)
                              : tokenize_text(&given, &arguments, err);
}
