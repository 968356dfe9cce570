/*
 * command - the table, and what all commands share.
 */
#include "app/command.h"

#include <stdio.h>
#include <string.h>

#include "app/arguments.h"
#include "base/error.h"
#include "base/str.h"

/* A row, run by cmd_NAME. */
#define COMMAND(name_, usage_, summary_, help_)                                    \
    {                                                                              \
        .name = #name_, .usage = (usage_), .summary = (summary_), .help = (help_), \
        .run = cmd_##name_                                                         \
    }

/* In the order in which help shows them. A help text is more than the summary and is
 * wrapped by hand, as it is printed as it stands. */
static const struct command table[] = {
    COMMAND(
        train, "RUN.yaml [--set KEY=VALUE]... [--overwrite] [--dry-run]",
        "fine-tune a model as a run file says",
        "The run file is YAML; `lathe settings` lists its keys. --set and the "
        "environment\n"
        "(LATHE_TRAIN_EPOCHS=3) override it. Results go to the run folder: run.yaml, "
        "log.txt,\n"
        "metrics.jsonl and model/.\n"),
    COMMAND(
        generate, "MODEL [--prompt TEXT | --chat TEXT] [--adapter DIR]",
        "text from a model: for a prompt, a message, or in a conversation",
        "--prompt goes on from plain text; --chat answers a message in the turn "
        "format of the\n"
        "model. Without either, standard input is the message, or, on a terminal, a "
        "conversation\n"
        "begins. Text streams to standard output and ends with the turn; speeds go "
        "to standard\n"
        "error. The same seed gives the same text.\n"),
    COMMAND(score,
            "MODEL (--text TEXT | --chat FILE.jsonl | --tokens FILE.jsonl) "
            "[--adapter DIR]",
            "loss of a model on text, conversations or token rows",
            "MODEL is a folder in Hugging Face layout or a .gguf file. Loss is the "
            "mean over\n"
            "all targets, in nats. Conversations are rows with `messages`, in the turn "
            "format of\n"
            "the model; what the model says in them carries loss.\n"),
    COMMAND(
        tokenize,
        "MODEL (TEXT | --file FILE | --show ROWS.jsonl) [--no-bos] [--decode]",
        "token ids of a text, the text of ids, or what rows become in training",
        "With --decode the text is a list of ids, separated by spaces or commas.\n"
        "--show prints each row as training sees it: which tokens carry loss, what "
        "is cut\n"
        "off, which rows are left out. Rows are read as the run file of --run says, "
        "or with\n"
        "--format and --set; without any of these the first row tells its format.\n"
        "NO_COLOR=1 shows marks instead of colours.\n"),
    COMMAND(convert, "FROM TO [--dtype TYPE] [--adapter DIR]",
            "a model in another form: GGUF to Hugging Face, another type, an adapter "
            "merged",
            "FROM is a folder in Hugging Face layout or a .gguf file (its tokenizer "
            "becomes\n"
            "tokenizer.json). TO is a folder that is not there yet; it appears whole "
            "or not at\n"
            "all.\n"),
    COMMAND(export, "RUN TO [--best | --latest] [--merge] [--dtype TYPE]",
            "the model or the adapter that a run has made, as a folder of its own",
            "Takes the model with the lowest held-out loss, or, where the run has "
            "none, the last\n"
            "one. The adapter of a LoRA run is copied as it is (PEFT layout), or with "
            "--merge\n"
            "becomes a whole model.\n"),
    COMMAND(doctor, "[--json]",
            "check this machine: processor, memory, libraries, speed, all kernels",
            "Takes a few seconds, best on an idle machine. The measured peak is kept "
            "in the\n"
            "user's cache folder, and training reports its share of it (mfu). Exit "
            "code 1, with\n"
            "what is wrong, if something is.\n"),
    COMMAND(plot, "RUN... [--svg FILE] [--csv FILE] [--smooth STEPS]",
            "loss, learning rate and speed curves of runs",
            "RUN is a run folder, also of a run in progress, or a metrics.jsonl. "
            "Several runs are\n"
            "drawn over each other. Dots are held-out losses.\n"),
    COMMAND(inspect, "PATH", "what a model, a weight file, an adapter or a run holds",
            "PATH is a model folder, a .safetensors or .gguf file, an adapter folder, "
            "or a run\n"
            "folder.\n"),
    COMMAND(settings, "[--markdown]",
            "every setting of a run file, with default and meaning", ""),
    COMMAND(help, "[COMMAND] [--man | --completion SHELL]",
            "this list, or the help of one command", ""),
    {0},
};

/* The table itself: callers walk it to the entry without a name. */
const struct command *command_table(void)
{
    return table;
}

/* By comparing one after the other, as there are few. */
const struct command *command_find(const char *name)
{
    for (const struct command *command = table; command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0) {
            return command;
        }
    }
    return NULL;
}

/* Names only those that are near: a suggestion far off would be worse than none. */
bool command_unknown(const char *name, struct error *err)
{
    const char *names[ARRAY_LENGTH(table)];
    size_t n = 0;
    for (const struct command *command = table; command->name != NULL; command++) {
        names[n++] = command->name;
    }
    const char *nearest = str_nearest(name, names, n);
    return error_set(err, ERROR_USAGE, "there is no command %s%s%s%s", name,
                     nearest == NULL ? "; `lathe help` lists them" : "; did you mean ",
                     nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

/* The summary in the table begins with a small letter and has no full stop, as the list
 * of commands shows it; here it stands as a sentence. It is built as one text and
 * written at once. Commands without options have no table to show. */
static void print_help(const struct command *command,
                       const struct argument_option *options)
{
    struct str out = {0};
    /* 'a' to 'A': the first letter of a summary is a small one. */
    str_printf(&out, "lathe %s %s\n\n%c%s.\n", command->name, command->usage,
               command->summary[0] - 'a' + 'A', command->summary + 1);
    if (command->help[0] != '\0') {
        str_printf(&out, "%s", command->help);
    }
    if (options != NULL && options[0].name != NULL) {
        str_add(&out, "\nOptions:\n");
        arguments_print_help(options, &out);
    }
    fputs(out.text, stdout);
    str_deinit(&out);
}

bool command_parse(const struct command *command, int argc, char *const *argv,
                   const struct argument_option *options, const bool *wants_help,
                   struct arguments *arguments, struct error *err)
{
    if (!arguments_parse(arguments, argc, argv, options, err)) {
        return false;
    }
    if (*wants_help && command->describe != NULL) {
        command->describe(command->context, command, options);
    } else if (*wants_help) {
        print_help(command, options);
    }
    return true;
}

/* As from the command line, with --help: the one call on which a command only shows its
 * options. */
bool command_describe(const struct command *command, command_describe_fn describe,
                      void *context, struct error *err)
{
    struct command copy = *command;
    copy.describe = describe;
    copy.context = context;
    /* argv is an array of char * by tradition, hence a copy that may be written. */
    char *help[] = {(char[]){"--help"}};
    return command->run(&copy, 1, help, err);
}

/* ERROR_USAGE is what makes the exit code 2. */
bool command_usage_error(const struct command *command, const char *what,
                         struct error *err)
{
    return error_set(err, ERROR_USAGE, "%s; usage: lathe %s %s", what, command->name,
                     command->usage);
}
