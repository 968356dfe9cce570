/*
 * conversation - see the header.
 */
#include "app/conversation.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/token_list.h"

/* How often a wait for input looks for a signal. */
enum { POLL_MS = 100 };

/* Appends a turn with a copy of its text. */
static void add_message(struct conversation *conversation, const char *role,
                        const char *text, size_t length)
{
    conversation->messages =
        mem_reserve_one(conversation->messages, conversation->n,
                        &conversation->capacity, sizeof(*conversation->messages));
    conversation->messages[conversation->n++] = (struct chat_message){
        .role = role, .text = mem_copy_bytes(text, length), .length = length};
}

/* Takes back the last turn. */
static void drop_message(struct conversation *conversation)
{
    ASSERT(conversation->n > 0);
    mem_free((void *)(uintptr_t)conversation->messages[--conversation->n].text);
}

/* The system's turn stands before all others, and is there from the first on. */
static void add_user(struct conversation *conversation, const char *text, size_t length)
{
    if (conversation->n == 0 && conversation->system != NULL) {
        add_message(conversation, "system", conversation->system,
                    strlen(conversation->system));
    }
    add_message(conversation, "user", text, length);
}

/* The conversation as it is, with the opening of a model turn. */
static bool encode(const struct conversation *conversation, struct token_list *ids,
                   struct error *err)
{
    struct str text = {0};
    const bool done =
        chat_render(conversation->format, conversation->messages, conversation->n, true,
                    &text, NULL, err) &&
        chat_encode(conversation->tokenizer, str_text(&text), text.length, ids, err);
    str_deinit(&text);
    return done;
}

bool conversation_encode(struct conversation *conversation, const char *text,
                         size_t length, struct token_list *ids, struct error *err)
{
    add_user(conversation, text, length);
    const bool done = encode(conversation, ids, err);
    drop_message(conversation);
    return done;
}

bool conversation_say(struct conversation *conversation, const char *text,
                      size_t length, struct generate_result *result, struct error *err)
{
    struct token_list ids = {0};
    add_user(conversation, text, length);
    bool done = encode(conversation, &ids, err);
    if (done) {
        const struct generate_request request = {
            .ids = ids.ids,
            .n = (int32_t)base_min((int64_t)ids.n, INT32_MAX),
            .max_tokens = conversation->max_tokens,
            .on_text = conversation->on_text,
            .context = conversation->context};
        done = generate_run(conversation->generator, &request, 1,
                            conversation->sampling, result, err);
    }
    if (done) {
        add_message(conversation, "model", result->text, result->text_length);
    } else {
        drop_message(conversation);
    }
    token_list_deinit(&ids);
    return done;
}

void conversation_clear(struct conversation *conversation)
{
    while (conversation->n > 0) {
        drop_message(conversation);
    }
}

void conversation_deinit(struct conversation *conversation)
{
    conversation_clear(conversation);
    mem_free(conversation->messages);
    conversation->messages = NULL;
    conversation->capacity = 0;
}

/* ---- on a terminal ---- */

/* Tokens per second, 0 where nothing was measured. */
static double rate(int64_t n, double seconds)
{
    return seconds > 0.0 ? (double)n / seconds : 0.0;
}

void conversation_note_speed(const struct generate_speed *speed)
{
    log_note("%lld tokens read at %.1f tokens/s, %lld written at %.1f tokens/s",
             (long long)speed->prompt_tokens,
             rate(speed->prompt_tokens, speed->prompt_seconds),
             (long long)speed->answer_tokens,
             rate(speed->answer_tokens, speed->answer_seconds));
}

/* False: a signal came first. A line that is there already need not be waited for. */
static bool wait_for_line(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (interrupt_requested() == 0) {
        if (poll(&input, 1, POLL_MS) > 0) {
            return true;
        }
    }
    return false;
}

/* The next line without its end, or NULL at the end of the input or after a signal; the
 * caller frees it. NUL bytes count as any others. */
static char *read_line(size_t *length)
{
    fputs("> ", stdout);
    fflush(stdout);
    char *line = NULL;
    size_t capacity = 0;
    const ssize_t n = wait_for_line() ? getline(&line, &capacity, stdin) : -1;
    if (n < 0) {
        free(line);
        putchar('\n');
        return NULL;
    }
    *length = (size_t)n;
    while (*length > 0 && strchr("\r\n", line[*length - 1]) != NULL &&
           line[*length - 1] != '\0') {
        (*length)--;
    }
    line[*length] = '\0';
    return line;
}

/* One turn. A text that does not fit is said so and forgotten, as the user can go on
 * with a shorter one; false: the conversation cannot go on. */
static bool take_turn(struct conversation *conversation, const char *line,
                      size_t length, struct error *err)
{
    struct generate_result result = {0};
    if (!conversation_say(conversation, line, length, &result, err)) {
        generate_result_deinit(&result);
        if (err->kind != ERROR_DATA) {
            return false;
        }
        log_error("%s (/new begins a new conversation)", err->message);
        return true;
    }
    putchar('\n');
    if (result.end == GENERATE_CONTEXT_FULL) {
        log_note("the context is full; /new begins a new conversation");
    } else if (result.end == GENERATE_STOPPED) {
        log_note("stopped");
        interrupt_note(0); /* that was for the answer */
    }
    const struct generate_speed speed = generate_last_speed(conversation->generator);
    conversation_note_speed(&speed);
    generate_result_deinit(&result);
    return true;
}

/* What begins with a slash and a word of letters is meant as a command, though it may
 * be none that there is; paths, with a second slash, are for the model. */
static bool is_command(const char *line)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ?";
    const size_t length = line[0] == '/' ? strspn(line + 1, letters) : 0;
    return length > 0 && (line[1 + length] == '\0' || line[1 + length] == ' ');
}

bool conversation_on_terminal(struct conversation *conversation, struct error *err)
{
    log_note("/new begins a new conversation, /exit or Ctrl-D ends it, Ctrl-C stops an "
             "answer");
    bool done = true;
    size_t length = 0;
    for (char *line; done && (line = read_line(&length)) != NULL; free(line)) {
        if (strcmp(line, "/exit") == 0) {
            free(line);
            break;
        }
        if (strcmp(line, "/new") == 0) {
            conversation_clear(conversation);
        } else if (is_command(line)) {
            log_note("%s: no such command; there are /new and /exit (a space in front "
                     "makes it a message)",
                     line);
        } else if (length > 0) {
            done = take_turn(conversation, line, length, err);
        }
    }
    return done;
}
