/*
 * cmd_convert - lathe convert: a model in another form: GGUF to Hugging Face layout,
 * another type, an adapter merged.
 */
#include "app/arguments.h"
#include "app/command.h"
#include "app/model_copy.h"
#include "base/error.h"
#include "base/interrupt.h"

bool cmd_convert(const struct command *command, int argc, char *const *argv,
                 struct error *err)
{
    struct model_copy copy = {0};
    bool wants_help = false;
    const struct argument_option options[] = {
        {"--dtype", "f32|bf16|f16", ARGUMENT_TEXT, &copy.dtype,
         "without it the type of FROM (of a GGUF file: bf16)"},
        {"--adapter", "DIR", ARGUMENT_TEXT, &copy.adapter,
         "merge this adapter (PEFT layout) into the weights"},
        {"--help", NULL, ARGUMENT_SWITCH, &wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &wants_help, &arguments, err)) {
        return false;
    }
    if (wants_help) {
        return true;
    }
    if (arguments.n != 2) {
        return command_usage_error(command, "expected a model and a folder to write",
                                   err);
    }
    copy.from = arguments.items[0];
    copy.to = arguments.items[1];
    interrupt_install();
    return model_copy_run(&copy, err);
}
