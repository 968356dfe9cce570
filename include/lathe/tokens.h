/*
 * tokens - text to token ids and back, as the model's own tokenizer does it.
 *
 *     struct lathe_tokenizer *tokenizer = lathe_tokenizer_open(path, &error);
 *     int32_t ids[512];
 *     size_t n = lathe_tokenizer_encode(tokenizer, "Hello", 5, true, ids, 512);
 *     lathe_tokenizer_close(tokenizer);
 *
 * Results go into arrays of the caller. Functions return how much there is; what does not
 * fit into the capacity is left out, so a first call with capacity 0 tells the size.
 */
#ifndef LATHE_TOKENS_H
#define LATHE_TOKENS_H

#include "lathe/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does not change once it is open: any number of threads may use it at once. */
struct lathe_tokenizer;

/* `path`: a model folder with tokenizer.json, or a .gguf file. NULL: failed
 * (LATHE_DATA). */
LATHE_API struct lathe_tokenizer *lathe_tokenizer_open(const char *path,
                                                       struct lathe_error *error);
LATHE_API void
lathe_tokenizer_close(struct lathe_tokenizer *tokenizer); /* takes NULL */

/*
 * Ids of text[0 .. length) bytes (at most 256 MiB) into ids[capacity]; returns their
 * number. adds_bos: with the tokens that the tokenizer puts around a text (for Gemma: BOS
 * in front). Bytes that are not UTF-8 become byte tokens.
 */
LATHE_API size_t lathe_tokenizer_encode(const struct lathe_tokenizer *tokenizer,
                                        const char *text, size_t length, bool adds_bos,
                                        int32_t *ids, size_t capacity);

/*
 * Text of ids[0 .. n) into text[capacity] with a NUL behind it where there is room;
 * returns its bytes without the NUL. skips_special leaves out BOS, turn marks and the
 * like. Ids outside the vocabulary give nothing.
 */
LATHE_API size_t lathe_tokenizer_decode(const struct lathe_tokenizer *tokenizer,
                                        const int32_t *ids, size_t n,
                                        bool skips_special, char *text,
                                        size_t capacity);

/* One more than the highest id. */
LATHE_API int32_t lathe_tokenizer_n_tokens(const struct lathe_tokenizer *tokenizer);

/* The id of a token by its stored text ("<bos>"), or -1. */
LATHE_API int32_t lathe_tokenizer_id(const struct lathe_tokenizer *tokenizer,
                                     const char *text);

/* A turn of a conversation. */
struct lathe_message {
    const char *role; /* "system", "user", "assistant" or "model" */
    const char *text; /* NUL-terminated UTF-8 */
};

/*
 * A conversation in the turn format that the tokenizer's model was trained on, with BOS
 * and, where opens_answer, the opening of the model's turn: its ids into ids[capacity],
 * their number into *n_ids. Fails with LATHE_DATA for a vocabulary without turn marks and
 * for roles that do not alternate.
 */
LATHE_API bool lathe_tokenizer_encode_chat(const struct lathe_tokenizer *tokenizer,
                                           const struct lathe_message *messages,
                                           size_t n, bool opens_answer, int32_t *ids,
                                           size_t capacity, size_t *n_ids,
                                           struct lathe_error *error);

#ifdef __cplusplus
}
#endif

#endif
