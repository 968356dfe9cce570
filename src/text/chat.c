/*
 * chat - two turn formats that differ in their marks and in the system message.
 *
 * Gemma 3 puts the system text, as it is, in front of the first user message; Gemma 4
 * gives it a turn of its own. Everything else is shared: open mark, role, newline, text,
 * close mark, newline. No template language is interpreted here; tests hold the result
 * against what jinja makes of the published templates.
 */
#include "text/chat.h"

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "text/token_list.h"
#include "text/tokenizer.h"

/*
 * What differs between the formats. A row of this table and a row of marks in
 * chat_template.c are all that another format of the same build would need: both
 * published families write a turn as open, role, newline, text, close, newline.
 */
struct format_marks {
    const char *name;
    const char *title; /* in messages */
    const char *open;
    const char *close;
    bool has_system_turn;
};

static const struct format_marks formats[] = {
    [CHAT_GEMMA3] = {"gemma3", "Gemma 3", "<start_of_turn>", "<end_of_turn>", false},
    [CHAT_GEMMA4] = {"gemma4", "Gemma 4", "<|turn>", "<turn|>", true},
};

/* Around what a Gemma 4 model thinks before it answers: a name, a newline, the thought.
 * The model does not see its earlier thoughts again, so the template takes them out. */
static const char thought_open[] = "<|channel>";
static const char thought_close[] = "<channel|>";

/* The word of data.chat_format, so that messages can be followed by a setting. */
const char *chat_format_name(enum chat_format format)
{
    return formats[format].name;
}

/* The data says assistant, the formats themselves say model. */
bool chat_is_model_role(const char *role)
{
    return strcmp(role, "assistant") == 0 || strcmp(role, "model") == 0;
}

/* Gemma 3 knows no developer: its template takes one for a model turn out of order. */
static bool is_system_role(const struct format_marks *marks, const char *role)
{
    return strcmp(role, "system") == 0 ||
           (marks->has_system_turn && strcmp(role, "developer") == 0);
}

/* --- text of a message ------------------------------------------------------------ */

/* Length of the white-space character that text[0 .. length) begins with, or 0. The set
 * is that of Python's str.strip, which jinja's trim calls. */
static size_t space_length(const char *text, size_t length)
{
    static const char *const wide[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80",
    };
    if (length == 0) {
        return 0;
    }
    const unsigned char c = (unsigned char)text[0];
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f)) {
        return 1;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(wide); i++) {
        const size_t n = strlen(wide[i]);
        if (length >= n && memcmp(text, wide[i], n) == 0) {
            return n;
        }
    }
    /* U+2000 to U+200A. */
    const bool is_quad = length >= 3 && memcmp(text, "\xe2\x80", 2) == 0 &&
                         (unsigned char)text[2] >= 0x80 &&
                         (unsigned char)text[2] <= 0x8a;
    return is_quad ? 3 : 0;
}

/* From the back a character is found by trying its lengths; the bytes of UTF-8 leave no
 * room for a wrong match. */
static struct chat_part trimmed(struct chat_part part)
{
    size_t n;
    while ((n = space_length(part.text, part.length)) > 0) {
        part.text += n;
        part.length -= n;
    }
    bool is_shorter = true;
    while (is_shorter && part.length > 0) {
        is_shorter = false;
        for (n = 1; n <= 3 && n <= part.length && !is_shorter; n++) {
            if (space_length(part.text + part.length - n, n) == n) {
                part.length -= n;
                is_shorter = true;
            }
        }
    }
    return part;
}

/* First place of a mark, or NULL. Texts may hold NUL bytes, so strstr will not do; and
 * memmem wants no NULL, which an empty text may be. */
static const char *find(const char *text, size_t length, const char *mark)
{
    return length == 0 ? NULL : memmem(text, length, mark, strlen(mark));
}

/*
 * Appends the text without its thoughts, trimmed at the end of all: between two closing
 * marks everything from the first opening mark on goes, and what follows the last
 * closing mark likewise loses an opened thought. True if there were any marks.
 */
static bool add_without_thoughts(struct str *out, struct chat_part part)
{
    struct str kept = {0};
    bool has_marks = false;
    while (true) {
        const char *close = find(part.text, part.length, thought_close);
        const size_t n = close == NULL ? part.length : (size_t)(close - part.text);
        const char *open = find(part.text, n, thought_open);
        has_marks = has_marks || open != NULL || close != NULL;
        str_add_bytes(&kept, part.text, open == NULL ? n : (size_t)(open - part.text));
        if (close == NULL) {
            break;
        }
        part.text += n + strlen(thought_close);
        part.length -= n + strlen(thought_close);
    }
    const struct chat_part text =
        trimmed((struct chat_part){str_text(&kept), kept.length});
    str_add_bytes(out, text.text, text.length);
    str_deinit(&kept);
    return has_marks;
}

/*
 * Appends what the message says; parts follow each other without anything between. Each
 * part is trimmed and freed of thoughts for itself, before they are joined: a mark that
 * only comes about by joining two parts is text, as it is for the templates. Only model
 * turns lose thoughts; a user may write about the marks.
 */
static void add_content(enum chat_format format, const struct chat_message *message,
                        struct str *out, bool *has_lost_thought)
{
    const struct chat_part whole = {message->text, message->length};
    const struct chat_part *parts = message->parts == NULL ? &whole : message->parts;
    const size_t n = message->parts == NULL ? 1 : message->n_parts;
    *has_lost_thought = false;
    for (size_t i = 0; i < n; i++) {
        if (format == CHAT_GEMMA4 && chat_is_model_role(message->role)) {
            *has_lost_thought |= add_without_thoughts(out, parts[i]);
        } else {
            const struct chat_part part = trimmed(parts[i]);
            str_add_bytes(out, part.text, part.length);
        }
    }
}

/* --- conversation ----------------------------------------------------------------- */

/* Appends one whole turn and says where the model's words are in it. The newline behind
 * the closing mark is outside of the span: a model stops before it. */
static struct chat_span add_turn(enum chat_format format, const char *role,
                                 const struct chat_message *message,
                                 const struct chat_part *prefix, struct str *out)
{
    const struct format_marks *marks = &formats[format];
    struct chat_span span;
    str_printf(out, "%s%s\n", marks->open, role);
    if (prefix != NULL) {
        str_add_bytes(out, prefix->text, prefix->length);
        str_add(out, "\n\n");
    }
    span.from = out->length;
    add_content(format, message, out, &span.has_lost_thought);
    str_add(out, marks->close);
    span.to = chat_is_model_role(message->role) ? out->length : span.from;
    str_add_char(out, '\n');
    return span;
}

/* The system text goes in front of the first user message untouched, as the template
 * of Gemma 3 has it. That takes the first part of several only; rather than losing the
 * others it is an error here. */
static bool take_system_text(const struct chat_message *messages, size_t n,
                             struct chat_part *prefix, struct error *err)
{
    *prefix = (struct chat_part){messages[0].text, messages[0].length};
    if (messages[0].parts != NULL) {
        if (messages[0].n_parts != 1) {
            return error_set(err, ERROR_DATA,
                             "message 1: the Gemma 3 format takes a system message of "
                             "one text, this one has %zu parts",
                             messages[0].n_parts);
        }
        *prefix = messages[0].parts[0];
    }
    if (n < 2) {
        return error_set(err, ERROR_DATA,
                         "message 1: in the Gemma 3 format a system message needs a "
                         "user message after it");
    }
    return true;
}

/* User and model take turns, the user first. The published templates only look at the
 * turns of the user and would render any other role in the model's place; a role they
 * do not name is refused here. */
static bool check_role(const struct format_marks *marks, const char *role, size_t i,
                       size_t n_turns, const char *before, struct error *err)
{
    const bool is_user = strcmp(role, "user") == 0;
    if (!is_user && !chat_is_model_role(role)) {
        const bool is_late = is_system_role(marks, role);
        return error_set(err, ERROR_DATA,
                         "message %zu: %s \"%s\" (the %s format has%s user and "
                         "assistant)",
                         i + 1, is_late ? "only the first one may have role" : "role",
                         role, marks->title,
                         is_late                  ? " then"
                         : marks->has_system_turn ? " system or developer first, then"
                                                  : " system first, then");
    }
    if (is_user != (n_turns % 2 == 0)) {
        return error_set(err, ERROR_DATA,
                         "message %zu: role \"%s\" %s%s: expected \"%s\" (user and "
                         "assistant must alternate, the user first)",
                         i + 1, role, n_turns == 0 ? "begins" : "follows ",
                         n_turns == 0 ? " the conversation" : before,
                         is_user ? "assistant" : "user");
    }
    return true;
}

/*
 * Each turn is written as soon as its role is known to be in order; *out keeps what was
 * written before an error. n_turns counts without the system message, which stands
 * outside of the alternation. A system message of Gemma 3 writes nothing where it
 * stands: its span is empty and its text waits for the first user turn.
 */
bool chat_render(enum chat_format format, const struct chat_message *messages, size_t n,
                 bool has_generation_prompt, struct str *out, struct chat_span *spans,
                 struct error *err)
{
    const struct format_marks *marks = &formats[format];
    struct chat_part prefix = {0};
    if (n == 0) {
        return error_set(err, ERROR_DATA, "the conversation has no messages");
    }
    const bool has_system = is_system_role(marks, messages[0].role);
    const bool has_prefix = has_system && !marks->has_system_turn;
    if (has_prefix && !take_system_text(messages, n, &prefix, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const struct chat_message *message = &messages[i];
        struct chat_span span = {.from = out->length, .to = out->length};
        if (i == 0 && has_system) {
            if (marks->has_system_turn) {
                span = add_turn(format, "system", message, NULL, out);
            }
        } else {
            const size_t n_turns = i - (has_system ? 1 : 0);
            if (!check_role(marks, message->role, i, n_turns,
                            i == 0 ? "" : messages[i - 1].role, err)) {
                return false;
            }
            span =
                add_turn(format, chat_is_model_role(message->role) ? "model" : "user",
                         message, has_prefix && n_turns == 0 ? &prefix : NULL, out);
        }
        if (spans != NULL) {
            spans[i] = span;
        }
    }
    if (has_generation_prompt) {
        str_printf(out, "%smodel\n", marks->open);
    }
    return true;
}

/* --- tokens ----------------------------------------------------------------------- */

/*
 * The tokenizer of a tuned Gemma 4 adds no BOS, as its template writes one; that of
 * Gemma 3 does both, and whoever calls template and tokenizer one after the other gets
 * two. Here it is always this function, and a BOS that stands in a message is refused: it
 * would tell the model that another document begins.
 */
bool chat_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                 struct token_list *out, struct error *err)
{
    const int32_t bos = tokenizer_bos(tokenizer);
    const size_t first = out->n;
    if (bos < 0) {
        return error_set(err, ERROR_USAGE,
                         "the tokenizer has no BOS token, which chat rows begin with");
    }
    if (length > TOKENIZER_MAX_BYTES) {
        return error_set(err, ERROR_DATA,
                         "a text of %zu bytes is too long (%d at most)", length,
                         TOKENIZER_MAX_BYTES);
    }
    token_list_add(out, bos, 0);
    tokenizer_encode(tokenizer, text, length, false, out);
    for (size_t i = first + 1; i < out->n; i++) {
        if (out->ids[i] == bos) {
            return error_set(err, ERROR_DATA,
                             "the text holds the BOS token again, as token %zu",
                             i - first);
        }
    }
    return true;
}

/* By its text and not by its number: small vocabularies place it elsewhere. */
int32_t chat_end_of_turn(enum chat_format format, const struct tokenizer *tokenizer)
{
    return tokenizer_id_of(tokenizer, formats[format].close);
}

/* Both marks, because a vocabulary may have one of them for another purpose. */
bool chat_format_of_tokenizer(const struct tokenizer *tokenizer,
                              enum chat_format *format)
{
    for (size_t i = 0; i < ARRAY_LENGTH(formats); i++) {
        if (tokenizer_id_of(tokenizer, formats[i].open) >= 0 &&
            tokenizer_id_of(tokenizer, formats[i].close) >= 0) {
            *format = (enum chat_format)i;
            return true;
        }
    }
    return false;
}
