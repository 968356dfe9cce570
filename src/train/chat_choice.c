/*
 * chat_choice - see the header.
 */
#include "train/chat_choice.h"

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

/* The template goes before the vocabulary only where the vocabulary has its marks: a
 * template alone, copied into a folder, cannot be learned. */
static bool choose(const char *path, const struct tokenizer *tokenizer,
                   const char *template, enum chat_format_choice choice,
                   enum chat_format *format, struct error *err)
{
    switch (choice) {
    case CHAT_FORMAT_GEMMA3:
        *format = CHAT_GEMMA3;
        break;
    case CHAT_FORMAT_GEMMA4:
        *format = CHAT_GEMMA4;
        break;
    case CHAT_FORMAT_AUTO:
        if (chat_template_format(template, format) &&
            chat_end_of_turn(*format, tokenizer) >= 0) {
            return true;
        }
        return chat_format_of_tokenizer(tokenizer, format) ||
               error_set(err, ERROR_USAGE,
                         "%s: the vocabulary has the turn marks of neither gemma3 "
                         "(<start_of_turn>) nor gemma4 (<|turn>): chat needs one of "
                         "them",
                         path);
    }
    return chat_end_of_turn(*format, tokenizer) >= 0 ||
           error_set(err, ERROR_USAGE,
                     "%s: the vocabulary has no turn marks of data.chat_format %s; "
                     "auto takes the model's own",
                     path, chat_format_name(*format));
}

/* A base model has no template, and then the format of its vocabulary is the only one
 * it can mean. */
bool chat_choice(const char *path, const struct tokenizer *tokenizer,
                 enum chat_format_choice choice, enum chat_format *format,
                 struct error *err)
{
    struct str template = {0};
    struct str difference = {0};
    const bool done = chat_template_read(path, &template, err) &&
                      choose(path, tokenizer, str_text(&template), choice, format, err);
    if (done && template.length > 0 &&
        !chat_template_is_known(template.text, *format, &difference)) {
        log_warning("%s: its chat template is not the %s format, in which lathe writes "
                    "conversations: the template %s",
                    path, chat_format_name(*format), difference.text);
    } else if (done) {
        log_debug("%s: conversations in the %s format", path,
                  chat_format_name(*format));
    }
    str_deinit(&template);
    str_deinit(&difference);
    return done;
}
