/*
 * conversation - turns between a user and a model: rendered as the model knows them, and
 * answered.
 *
 *     struct conversation conversation = {.generator = ..., ...};
 *     conversation_say(&conversation, text, length, &result, err);
 *     conversation_deinit(&conversation);
 *
 * Each turn is rendered with all before it; what the generator has read already it does
 * not read again.
 */
#ifndef APP_CONVERSATION_H
#define APP_CONVERSATION_H

#include "text/chat.h"
#include "train/generate.h"

struct tokenizer;

struct conversation {
    struct generator *generator; /* borrowed, as all below */
    const struct tokenizer *tokenizer;
    enum chat_format format;
    const char *system;                     /* or NULL */
    const struct sampler_options *sampling; /* of the answers */
    int32_t max_tokens;                     /* of an answer */
    generate_text_fn on_text;               /* or NULL */
    void *context;                          /* of on_text */
    struct chat_message *messages;          /* [n], texts owned */
    size_t n, capacity;
};

/* The user says text[0 .. length). The answer becomes the next turn; after a failure
 * neither has been said. */
MUST_USE bool conversation_say(struct conversation *conversation, const char *text,
                               size_t length, struct generate_result *result,
                               struct error *err);

/* Token ids of the conversation with a further turn of the user, for whom the model
 * answers next; appended to *ids. */
struct token_list;
MUST_USE bool conversation_encode(struct conversation *conversation, const char *text,
                                  size_t length, struct token_list *ids,
                                  struct error *err);

/* Nothing has been said. */
void conversation_clear(struct conversation *conversation);
void conversation_deinit(struct conversation *conversation); /* a zeroed one too */

/*
 * Reads turns from the terminal and prints answers until the end of the input, /exit or
 * Ctrl-C. Ctrl-C during an answer ends that answer only.
 */
MUST_USE bool conversation_on_terminal(struct conversation *conversation,
                                       struct error *err);

/* "12 tokens read at 154.2 tokens/s, 100 written at 31.4 tokens/s" as a note. */
void conversation_note_speed(const struct generate_speed *speed);

#endif
