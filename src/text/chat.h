/*
 * chat - conversations as the text that Gemma 3 and Gemma 4 were trained on.
 *
 *     struct str text = {0};
 *     if (!chat_render(CHAT_GEMMA3, messages, n, true, &text, NULL, err) ||
 *         !chat_encode(tokenizer, text.text, text.length, &tokens, err)) ...
 *
 *     <start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n
 *
 * The text has no BOS: chat_encode puts it in front, once. Byte for byte what the text
 * part of the published templates gives, and as they do it: white space around a
 * message is trimmed, and Gemma 4 leaves the <|channel>...<channel|> parts (thoughts) of
 * model turns out.
 */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "base/base.h"

struct error;
struct str;
struct token_list;
struct tokenizer;

enum chat_format { CHAT_GEMMA3, CHAT_GEMMA4 };

/* A text of a message; any bytes, borrowed. */
struct chat_part {
    const char *text; /* [length] */
    size_t length;
};

/* One turn as it stands in the data: one text, or several parts, each of which is
 * trimmed for itself. */
struct chat_message {
    const char *role; /* system, developer, user, assistant or model */
    const char *text; /* [length] any bytes; borrowed */
    size_t length;
    const struct chat_part *parts; /* [n_parts] instead of the text; NULL = text */
    size_t n_parts;
};

/* Part of the rendered text: what a model turn says, and its end-of-turn mark. */
struct chat_span {
    size_t from, to;       /* bytes; equal for turns that are not the model's */
    bool has_lost_thought; /* a channel part was left out */
};

/*
 * Appends the conversation to *out. A conversation that the published template refuses
 * (roles that do not alternate) is an error that names the message by number, from 1.
 * has_generation_prompt: the opening of a model turn follows. spans: [n], one for each
 * message, relative to the start of *out; or NULL.
 */
MUST_USE bool chat_render(enum chat_format format, const struct chat_message *messages,
                          size_t n, bool has_generation_prompt, struct str *out,
                          struct chat_span *spans, struct error *err);

/*
 * Appends BOS and the tokens of a rendered text to *out (starts count from the text's
 * first byte), whether or not the tokenizer adds a BOS by itself. Another BOS in the
 * text is an error (C11), as is a vocabulary without one.
 */
MUST_USE bool chat_encode(const struct tokenizer *tokenizer, const char *text,
                          size_t length, struct token_list *out, struct error *err);

/* The token that ends a turn, or -1 where this vocabulary has none. */
int32_t chat_end_of_turn(enum chat_format format, const struct tokenizer *tokenizer);

/* The format whose turn marks this vocabulary has as single tokens; false: neither. */
bool chat_format_of_tokenizer(const struct tokenizer *tokenizer,
                              enum chat_format *format);

/* Whether the role is the model's: "assistant" or "model". */
bool chat_is_model_role(const char *role);

const char *chat_format_name(enum chat_format format); /* "gemma3" */

#endif
