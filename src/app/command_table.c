/*
 * command_table - the commands and their texts for people.
 *
 * A help text is more than the summary: what is taken, what comes out, what happens to
 * what is there already. It is wrapped by hand at 80 columns and printed as it stands;
 * options explain themselves (cmd_*.c). Examples are whole command lines that a reader can
 * change; a line that begins with "# " says what the next one is for.
 */
#include "app/command.h"

#include <stddef.h>

// clang-format off
#define COMMAND(name_, usage_, summary_, help_, examples_)                          \
    {.name = #name_, .usage = (usage_), .summary = (summary_), .help = (help_),     \
     .examples = (examples_), .run = cmd_##name_}

/* In the order in which help shows them: training, using models, files, the machine. */
static const struct command table[] = {
    COMMAND(train, "RUN.yaml [--set KEY=VALUE]... [--overwrite] [--dry-run]",
        "fine-tune a model as a run file says",
        "RUN.yaml is a run file: model, data and settings (`lathe settings` lists all\n"
        "keys). --set and the environment (LATHE_TRAIN_EPOCHS=3) override it. Results go\n"
        "to the run folder: run.yaml, log.txt, metrics.jsonl (one line a step), and the\n"
        "tuned model in model/ (with LoRA: adapter/). With held-out data, best/ is the\n"
        "model with the lowest held-out loss. Ctrl-C ends the run and keeps the model of\n"
        "the last step.\n",
        "# the demo, under three minutes\n"
        "lathe train examples/demo/demo.yaml\n"
        "# what would happen: memory, steps, what each row becomes\n"
        "lathe train run.yaml --dry-run\n"
        "lathe train run.yaml --set train.epochs=1 --set run=runs/short\n"),
    COMMAND(plot, "RUN... [--svg FILE] [--csv FILE] [--smooth STEPS]",
        "loss, learning rate and speed curves of runs",
        "RUN is a run folder, also that of a run in progress, or a metrics.jsonl. Several\n"
        "runs are drawn over each other. Dots are held-out losses. The terminal's width\n"
        "is used; without UTF-8 (LANG) or colours (NO_COLOR=1) letters take their place.\n",
        "lathe plot runs/demo\n"
        "# two runs in one picture for a page\n"
        "lathe plot runs/a runs/b --svg loss.svg\n"),
    COMMAND(export, "RUN TO [--best | --latest] [--merge] [--dtype TYPE]",
        "the model or the adapter that a run has made, as a folder of its own",
        "Takes the model with the lowest held-out loss, or, where the run has none, the\n"
        "last one. The adapter of a LoRA run is copied as it is (PEFT layout), or with\n"
        "--merge becomes a whole model. TO must not be there yet, or be an empty folder.\n"
        "The result loads in transformers.\n",
        "lathe export runs/demo models/tuned\n"
        "lathe export runs/lora models/adapter\n"
        "lathe export runs/lora models/merged --merge --dtype bf16\n"),
    COMMAND(generate, "MODEL [--prompt TEXT | --chat TEXT] [--adapter DIR]",
        "text from a model: for a prompt, a message, or in a conversation",
        "MODEL is a folder in Hugging Face layout or a .gguf file. --prompt goes on from\n"
        "plain text; --chat answers a message in the turn format of the model. Without\n"
        "either, standard input is the message, or, on a terminal, a conversation begins.\n"
        "Text streams to standard output and ends with the turn; speeds go to standard\n"
        "error. The same seed gives the same text.\n",
        "lathe generate runs/demo/model --prompt \"Question: What is 2 + 2?\"\n"
        "lathe generate models/gemma --chat \"Name three rivers.\" --temperature 0\n"
        "# a conversation\n"
        "lathe generate models/gemma --adapter runs/lora/adapter\n"),
    COMMAND(score,
        "MODEL (--text TEXT | --chat FILE | --rows FILE | --tokens FILE)",
        "loss of a model on text, conversations, training rows or token rows",
        "MODEL is a folder in Hugging Face layout or a .gguf file. Loss is the mean over\n"
        "all targets, in nats. Conversations are rows with `messages`, in the turn format\n"
        "of the model; what the model says in them carries loss. --rows takes rows of any\n"
        "data.format: as --run or --set data.format says, each whole whatever its length.\n",
        "lathe score models/gemma --text \"Tom has 5 apples.\"\n"
        "lathe score models/gemma --chat test.jsonl --adapter runs/lora/adapter\n"
        "lathe score runs/demo/model --rows eval.jsonl --run run.yaml\n"
        "lathe score models/gemma --tokens rows.jsonl --json --per-token\n"),
    COMMAND(tokenize,
        "MODEL (TEXT | --file FILE | --show ROWS.jsonl) [--no-bos] [--decode]",
        "token ids of a text, the text of ids, or what rows become in training",
        "With --decode the text is a list of ids, separated by spaces or commas.\n"
        "--show prints each row as training sees it: which tokens carry loss, what is cut\n"
        "off, which rows are left out. Rows are read as the run file of --run says, or\n"
        "with --format and --set; without any of these the first row tells its format.\n"
        "NO_COLOR=1 shows marks instead of colours.\n",
        "lathe tokenize models/gemma \"Hello world\"\n"
        "lathe tokenize models/gemma --decode \"2 9259 1902\"\n"
        "lathe tokenize models/gemma --show train.jsonl --rows 3\n"),
    COMMAND(convert, "FROM TO [--dtype TYPE] [--adapter DIR]",
        "a model in another form: from GGUF, of another type, with an adapter merged",
        "FROM is a folder in Hugging Face layout or a .gguf file, whose vocabulary becomes\n"
        "tokenizer.json. TO is the folder to write: it must not be there yet, or be empty,\n"
        "and appears whole or not at all. Weights pass through a few megabytes of memory,\n"
        "whatever their size. The result loads in transformers.\n",
        "lathe convert gemma-3-270m.gguf models/gemma-3-270m\n"
        "lathe convert models/gemma models/gemma-f32 --dtype f32\n"
        "lathe convert models/gemma models/merged --adapter runs/lora/adapter\n"),
    COMMAND(inspect, "PATH", "what a model, a weight file, an adapter or a run holds",
        "PATH is a model folder, a .safetensors or .gguf file, an adapter folder, or a run\n"
        "folder.\n",
        "lathe inspect models/gemma-3-270m.gguf\n"
        "lathe inspect runs/demo\n"),
    COMMAND(doctor, "[--json]",
        "check this machine: processor, memory, libraries, speed, all kernels",
        "Takes a few seconds; measure on an idle machine. The measured peak is kept in the\n"
        "user's cache folder, and training reports its share of it (mfu). Every native\n"
        "kernel is compared with its definition, for each instruction set. If something\n"
        "is wrong it is named, and the exit code is 1.\n",
        "lathe doctor\n"
        "lathe doctor --json > machine.json\n"),
    COMMAND(bench, "[--model-shape NAME] [--rows N] [--lora RANK] [--generate] [--json]",
        "speed and memory of a training step, or of generation, on this machine",
        "Runs steps of a model shape with random weights and tokens, every position a\n"
        "target, by the same planner and programs as `lathe train`. The peak is the best\n"
        "2048^3 product of the libraries at hand, measured before and after; mfu is the\n"
        "work that a step needs (6 operations a trained matrix parameter and token, and\n"
        "attention) as a share of it. Memory is all that the process ever had resident.\n"
        "With --generate a prompt is read and tokens follow one by one; the rate at which\n"
        "weights are read is set beside that of memory.\n",
        "lathe bench\n"
        "lathe bench --rows 16 --memory-limit 5500000000 --json\n"
        "# adapters on frozen weights in bf16\n"
        "lathe bench --lora 16 --set lora.base=bf16\n"
        "lathe bench --generate --profile trace.json\n"),
    COMMAND(settings, "[--markdown]",
        "every setting of a run file, with default and meaning",
        "Keys of run files and of --set, each with its default, meaning and choices.\n"
        "Sections nest: train.epochs is `train: {epochs: 3}` in a run file,\n"
        "LATHE_TRAIN_EPOCHS=3 in the environment.\n",
        "lathe settings | less\n"
        "lathe settings | grep -A 1 ^lora\n"
        "lathe settings --markdown > settings.md\n"),
    COMMAND(help, "[COMMAND] [--man | --completion SHELL]",
        "this list, or the help of one command", "",
        "lathe help train\n"
        "lathe help --man | man -l -\n"
        "source <(lathe help --completion bash)\n"),
    {0},
};
// clang-format on

/* Callers walk it to the entry without a name. */
const struct command *command_table(void)
{
    return table;
}
