/*
 * cmd_tokenize - lathe tokenize: ids of a text, or the text of ids.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
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

/* The text is read before the tokenizer, whose reading takes longer: a wrong path is
 * then told at once. TOKENIZER_MAX_BYTES is what the tokenizer takes. One text either
 * way: with --file its place among the arguments must be empty. */
bool cmd_tokenize(const struct command *command, int argc, char *const *argv,
                  struct error *err)
{
    const char *file = NULL;
    bool skips_bos = false;
    bool decodes = false;
    bool wants_help = false;
    const struct argument_option options[] = {
        {"--file", "FILE", ARGUMENT_TEXT, &file, "take the text from a file"},
        {"--no-bos", NULL, ARGUMENT_SWITCH, &skips_bos,
         "no token in front of the text"},
        {"--decode", NULL, ARGUMENT_SWITCH, &decodes, "from ids to text"},
        {"--help", NULL, ARGUMENT_SWITCH, &wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &wants_help, &arguments, err)) {
        return false;
    }
    if (wants_help) {
        return true;
    }
    if (arguments.n != (file == NULL ? 2 : 1)) {
        return command_usage_error(command, "expected a model and one text", err);
    }
    size_t length = 0;
    char *text = file != NULL ? file_read(file, TOKENIZER_MAX_BYTES, &length, err)
                              : mem_strdup(arguments.items[1]);
    /* Only reading a file can fail. */
    if (text == NULL) {
        return false;
    }
    length = file != NULL ? length : strlen(text);
    /* Of the model only the tokenizer is opened: no weights are needed. */
    struct tokenizer *tokenizer = model_source_tokenizer(arguments.items[0], err);
    bool done = tokenizer != NULL;
    if (done && decodes) {
        done = decode(tokenizer, text, err);
    } else if (done) {
        encode(tokenizer, text, length, !skips_bos);
    }
    tokenizer_destroy(tokenizer);
    mem_free(text);
    return done;
}
