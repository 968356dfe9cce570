/*
 * chat_template - the template that a model comes with, held against lathe's formats.
 *
 *     struct str text = {0}, difference = {0};
 *     if (!chat_template_read("models/gemma-3-270m-it", &text, err)) ...
 *     if (text.length > 0 &&
 *         !chat_template_is_known(str_text(&text), CHAT_GEMMA3, &difference)) ...
 *
 * lathe renders its own two formats (chat.h) and runs no template. Published templates
 * are revised often in parts that it never uses (tools), so they are not compared as a
 * whole: looked at are the control marks, the texts that a template adds, and how it
 * treats white space, system messages and thoughts.
 */
#ifndef TEXT_CHAT_TEMPLATE_H
#define TEXT_CHAT_TEMPLATE_H

#include "base/base.h"
#include "text/chat.h"

struct error;
struct str;

/*
 * Appends the template of a model folder (chat_template.jinja, chat_template.json, then
 * tokenizer_config.json: the first that has one; of several the default) or of a .gguf
 * file. Nothing is appended where the model has none.
 */
MUST_USE bool chat_template_read(const char *path, struct str *out, struct error *err);

/* The template of a chat_template.json or tokenizer_config.json, as above. */
MUST_USE bool chat_template_of_json(const char *text, size_t length, const char *where,
                                    struct str *out, struct error *err);

/* The format whose opening mark the template writes; false: neither. */
bool chat_template_format(const char *text, enum chat_format *format);

/* Whether conversations of texts come out as lathe renders them, as far as can be told;
 * if not, what differs is appended: `has <|im_start|>; has no <start_of_turn>`. */
bool chat_template_is_known(const char *text, enum chat_format format,
                            struct str *difference);

#endif
