/*
 * lathe_tokenizer - tokenizers and conversations through the public interface: results
 * in arrays of the caller.
 */
#include <string.h>

#include "api/lathe_parts.h"
#include "base/error.h"
#include "base/mem.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct lathe_tokenizer *lathe_tokenizer_open(const char *path,
                                             struct lathe_error *error)
{
    struct error err;
    struct tokenizer *inner = model_source_tokenizer(path, &err);
    if (inner == NULL) {
        lathe_report(error, &err);
        return NULL;
    }
    struct lathe_tokenizer *tokenizer = mem_alloc(sizeof(*tokenizer));
    tokenizer->tokenizer = inner;
    return tokenizer;
}

void lathe_tokenizer_close(struct lathe_tokenizer *tokenizer)
{
    if (tokenizer != NULL) {
        tokenizer_destroy(tokenizer->tokenizer);
        mem_free(tokenizer);
    }
}

/* As many as fit; the number that there are. */
static size_t hand_out(const struct token_list *list, int32_t *ids, size_t capacity)
{
    const size_t n = list->n < capacity ? list->n : capacity;
    if (n > 0) {
        memcpy(ids, list->ids, n * sizeof(*ids));
    }
    return list->n;
}

size_t lathe_tokenizer_encode(const struct lathe_tokenizer *tokenizer, const char *text,
                              size_t length, bool adds_bos, int32_t *ids,
                              size_t capacity)
{
    ASSERT(length <= TOKENIZER_MAX_BYTES);
    struct token_list list = {0};
    tokenizer_encode(tokenizer->tokenizer, text, length, adds_bos, &list);
    const size_t n = hand_out(&list, ids, capacity);
    token_list_deinit(&list);
    return n;
}

size_t lathe_tokenizer_decode(const struct lathe_tokenizer *tokenizer,
                              const int32_t *ids, size_t n, bool skips_special,
                              char *text, size_t capacity)
{
    struct str out = {0};
    tokenizer_decode(tokenizer->tokenizer, ids, n, skips_special, &out);
    /* The NUL of the str belongs to it where it fits. */
    const size_t wanted = out.length + 1;
    if (capacity > 0) {
        memcpy(text, str_text(&out), wanted < capacity ? wanted : capacity);
    }
    const size_t length = out.length;
    str_deinit(&out);
    return length;
}

int32_t lathe_tokenizer_n_tokens(const struct lathe_tokenizer *tokenizer)
{
    return tokenizer_n_tokens(tokenizer->tokenizer);
}

int32_t lathe_tokenizer_id(const struct lathe_tokenizer *tokenizer, const char *text)
{
    return tokenizer_id_of(tokenizer->tokenizer, text);
}

/* Renders and encodes; what the format is, the vocabulary says. */
static bool encode_chat(const struct tokenizer *tokenizer,
                        const struct chat_message *messages, size_t n,
                        bool opens_answer, struct token_list *list, struct error *err)
{
    enum chat_format format;
    if (!chat_format_of_tokenizer(tokenizer, &format)) {
        return error_set(err, ERROR_DATA,
                         "the vocabulary has no turn marks: the model knows no "
                         "conversations");
    }
    struct str text = {0};
    const bool done =
        chat_render(format, messages, n, opens_answer, &text, NULL, err) &&
        chat_encode(tokenizer, str_text(&text), text.length, list, err);
    str_deinit(&text);
    return done;
}

bool lathe_tokenizer_encode_chat(const struct lathe_tokenizer *tokenizer,
                                 const struct lathe_message *messages, size_t n,
                                 bool opens_answer, int32_t *ids, size_t capacity,
                                 size_t *n_ids, struct lathe_error *error)
{
    struct error err;
    struct token_list list = {0};
    struct chat_message *inner = mem_alloc_array(n, sizeof(*inner));
    for (size_t i = 0; i < n; i++) {
        inner[i] = (struct chat_message){.role = messages[i].role,
                                         .text = messages[i].text,
                                         .length = strlen(messages[i].text)};
    }
    const bool done =
        encode_chat(tokenizer->tokenizer, inner, n, opens_answer, &list, &err);
    if (done) {
        *n_ids = hand_out(&list, ids, capacity);
    }
    mem_free(inner);
    token_list_deinit(&list);
    return done || lathe_report(error, &err);
}
