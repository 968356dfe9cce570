/*
 * row_chat - conversations to rows: messages are checked, rendered in the turn format,
 * encoded as one text, and tokens that hold a byte of a model's words carry loss.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/row.h"

/* One conversation on its way; all texts are borrowed from the JSON row. */
struct conversation {
    const struct row_chat_options *options;
    const char *key;         /* of the array of messages */
    const char *fault_field; /* as in struct row */
    const json_t *array;
    struct chat_message *messages; /* [n] */
    struct chat_part **parts;      /* [n] of messages with a list, NULL for others */
    float *weight;                 /* [n] of model turns */
    struct chat_span *spans;       /* [n] */
    struct str text;
    size_t n;
};

/* Takes one that was read only in part: the arrays come zeroed. */
static void conversation_deinit(struct conversation *talk)
{
    for (size_t i = 0; i < talk->n; i++) {
        mem_free(talk->parts[i]);
    }
    mem_free(talk->messages);
    mem_free(talk->parts);
    mem_free(talk->weight);
    mem_free(talk->spans);
    str_deinit(&talk->text);
}

/* --- fields ----------------------------------------------------------------------- */

/* Refuses the fields that are in no list, as records.c does for those of rows (D4). */
static bool check_extra_fields(struct conversation *talk, size_t i, json_t *message,
                               const char *const *used, size_t n_used,
                               struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(message, key, value)
    {
        bool is_known = row_says_nothing(value);
        for (size_t k = 0; k < n_used && !is_known; k++) {
            is_known = strcmp(key, used[k]) == 0;
        }
        for (size_t k = 0; k < talk->options->n_ignore && !is_known; k++) {
            is_known = strcmp(key, talk->options->ignore[k]) == 0;
        }
        if (!is_known) {
            talk->fault_field = key;
            return error_set(err, ERROR_DATA,
                             "%s, message %zu: field \"%s\" is neither used nor "
                             "ignored: leave it out or name it in data.ignore",
                             talk->key, i + 1, key);
        }
    }
    return true;
}

/* Parts of a content list: texts only. What else it holds is named, as a model would
 * otherwise answer questions about a picture that it never saw. */
static bool read_parts(struct conversation *talk, size_t i, const json_t *list,
                       struct error *err)
{
    const size_t n = json_array_size(list);
    struct chat_part *parts = mem_alloc_array(n + 1, sizeof(*parts));
    talk->parts[i] = parts;
    for (size_t k = 0; k < n; k++) {
        static const char *const used[] = {"type", "text"};
        json_t *part = json_array_get(list, k);
        const json_t *type = json_object_get(part, "type");
        const json_t *text = json_object_get(part, "text");
        if (json_is_string(type) && strcmp(json_string_value(type), "text") != 0) {
            return error_set(err, ERROR_DATA,
                             "%s, message %zu: part %zu of the content is of type "
                             "\"%s\"; lathe trains on text only",
                             talk->key, i + 1, k + 1, json_string_value(type));
        }
        if (!json_is_string(type) || !json_is_string(text)) {
            return error_set(err, ERROR_DATA,
                             "%s, message %zu: part %zu of the content: expected "
                             "{\"type\": \"text\", \"text\": ...}",
                             talk->key, i + 1, k + 1);
        }
        parts[k] =
            (struct chat_part){json_string_value(text), json_string_length(text)};
        if (!check_extra_fields(talk, i, part, used, ARRAY_LENGTH(used), err)) {
            return false;
        }
    }
    talk->messages[i].parts = parts;
    talk->messages[i].n_parts = n;
    return true;
}

/* The role in this program's words: ShareGPT rows call the two sides human and gpt. */
static const char *plain_role(const char *role)
{
    return strcmp(role, "human") == 0 ? "user"
           : strcmp(role, "gpt") == 0 ? "assistant"
                                      : role;
}

/* OpenAI's rows give model turns a weight of 0 or 1; any weight will do here. */
static bool read_weight(struct conversation *talk, size_t i, const json_t *value,
                        struct error *err)
{
    if (!row_read_weight(value, &talk->weight[i], err)) {
        talk->fault_field = "weight";
        return error_wrap(err, "%s, message %zu", talk->key, i + 1);
    }
    return true;
}

/*
 * One message: role and content, or from and value; the first pair whose role is there.
 * A content of null, as model turns with tool calls have it, is an error like any other
 * that is no text: there would be nothing to learn.
 */
static bool read_message(struct conversation *talk, size_t i, struct error *err)
{
    json_t *object = json_array_get(talk->array, i);
    const bool has_from = json_object_get(object, "role") == NULL &&
                          json_object_get(object, "from") != NULL;
    const char *const used[] = {has_from ? "from" : "role",
                                has_from ? "value" : "content", "weight"};
    const json_t *role = json_object_get(object, used[0]);
    const json_t *content = json_object_get(object, used[1]);
    struct chat_message *message = &talk->messages[i];
    if (!json_is_string(role)) {
        return error_set(err, ERROR_DATA,
                         "%s, message %zu: expected {\"role\": ..., \"content\": ...}",
                         talk->key, i + 1);
    }
    message->role = plain_role(json_string_value(role));
    if (json_is_string(content)) {
        message->text = json_string_value(content);
        message->length = json_string_length(content);
    } else if (!json_is_array(content)) {
        return error_set(err, ERROR_DATA,
                         "%s, message %zu: %s: expected a text or a list of parts",
                         talk->key, i + 1, used[1]);
    } else if (!read_parts(talk, i, content, err)) {
        return false;
    }
    /* Only a model turn can have a weight, as only it has loss. */
    const size_t n_used = chat_is_model_role(message->role) ? 3 : 2;
    return check_extra_fields(talk, i, object, used, n_used, err) &&
           read_weight(talk, i, n_used == 3 ? json_object_get(object, "weight") : NULL,
                       err);
}

/* Finds the array under either name and reads its messages. One that says nothing counts
 * as absent beside the other, for tables that have both columns. One more element than messages, so that the arrays
 * exist for none. */
static bool read_messages(struct conversation *talk, const json_t *object,
                          struct error *err)
{
    const json_t *messages = json_object_get(object, "messages");
    const json_t *conversations = json_object_get(object, "conversations");
    const bool says_messages = !row_says_nothing(messages);
    const bool says_conversations = !row_says_nothing(conversations);
    if (says_messages && says_conversations) {
        talk->fault_field = "conversations";
        return error_set(err, ERROR_DATA,
                         "the row has both \"messages\" and \"conversations\"");
    }
    /* Of two that say nothing, an empty list is told apart from none. */
    const bool is_second =
        says_conversations ||
        (!says_messages && (messages == NULL || json_is_null(messages)) &&
         conversations != NULL);
    talk->key = is_second ? "conversations" : "messages";
    talk->array = is_second ? conversations : messages;
    if (json_is_null(talk->array)) {
        talk->array = NULL;
    }
    talk->fault_field = talk->array == NULL ? NULL : talk->key;
    if (talk->array == NULL) {
        return error_set(err, ERROR_DATA, "the row has no field \"messages\"");
    }
    if (!json_is_array(talk->array)) {
        return error_set(err, ERROR_DATA, "%s: expected an array of messages",
                         talk->key);
    }
    talk->n = json_array_size(talk->array);
    talk->messages = mem_alloc_array(talk->n + 1, sizeof(*talk->messages));
    talk->parts = mem_alloc_array(talk->n + 1, sizeof(struct chat_part *));
    talk->weight = mem_alloc_array(talk->n + 1, sizeof(*talk->weight));
    talk->spans = mem_alloc_array(talk->n + 1, sizeof(*talk->spans));
    for (size_t i = 0; i < talk->n; i++) {
        if (!read_message(talk, i, err)) {
            return false;
        }
    }
    return true;
}

/* --- tokens ----------------------------------------------------------------------- */

/* Turns whose loss is not wanted get the weight 0: all of them but the last model turn,
 * where only that is. */
static void choose_turns(struct conversation *talk)
{
    bool is_taken = false;
    for (size_t i = talk->n; i-- > 0;) {
        if (talk->spans[i].to == talk->spans[i].from) {
            continue;
        }
        if (is_taken && talk->options->has_loss_on_last) {
            talk->weight[i] = 0;
        }
        is_taken = true;
    }
}

/* Weights of the encoded tokens. Both tokens and spans are in order of the text, so one
 * walk does. A token covers bytes [start, end); it belongs to the first span of which
 * it holds a byte. BOS, at `first`, holds none. */
static void weigh_tokens(struct row *row, const struct conversation *talk, size_t first)
{
    const struct token_list *tokens = &row->tokens;
    const bool has_all = talk->options->has_loss_on_all;
    size_t turn = 0;
    row_weigh(row, has_all ? 1.0F : 0.0F);
    for (size_t i = first + 1; i < tokens->n; i++) {
        const size_t start = tokens->starts[i];
        const size_t end =
            i + 1 < tokens->n ? tokens->starts[i + 1] : talk->text.length;
        while (turn < talk->n && talk->spans[turn].to <= start) {
            turn++;
        }
        const bool is_inside = turn < talk->n && end > talk->spans[turn].from;
        row_weigh(row, is_inside ? talk->weight[turn] : has_all ? 1.0F : 0.0F);
    }
}

/* A format whose marks are not single tokens of this vocabulary would be learned letter
 * by letter; no published model does that. */
static bool check_marks(enum chat_format format, const struct tokenizer *tokenizer,
                        struct error *err)
{
    enum chat_format own;
    if (chat_end_of_turn(format, tokenizer) >= 0) {
        return true;
    }
    const bool has_own = chat_format_of_tokenizer(tokenizer, &own);
    return error_set(err, ERROR_USAGE,
                     "the model's vocabulary has no turn marks of the %s format%s%s",
                     chat_format_name(format),
                     has_own ? "; it has those of data.chat_format " : "",
                     has_own ? chat_format_name(own) : "");
}

/*
 * The text is encoded in one go, as the model meets it, and not turn by turn: a token may
 * reach over the newline behind a role. Spans of bytes then say what each token holds.
 * A row that fails may hold tokens already; its reader clears it before the next.
 */
bool row_from_chat(struct row *row, const json_t *object,
                   const struct row_chat_options *options,
                   const struct tokenizer *tokenizer, struct error *err)
{
    struct conversation talk = {.options = options};
    const size_t first = row->tokens.n;
    const bool is_done =
        check_marks(options->format, tokenizer, err) &&
        read_messages(&talk, object, err) &&
        chat_render(options->format, talk.messages, talk.n, false, &talk.text,
                    talk.spans, err) &&
        chat_encode(tokenizer, talk.text.text, talk.text.length, &row->tokens, err);
    row->fault_field = is_done ? NULL : talk.fault_field;
    if (is_done) {
        row_begin_document(row);
        choose_turns(&talk);
        weigh_tokens(row, &talk, first);
        for (size_t i = 0; i < talk.n; i++) {
            row->has_lost_thought |= talk.spans[i].has_lost_thought;
        }
    }
    conversation_deinit(&talk);
    return is_done;
}
