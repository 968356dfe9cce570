/*
 * tokenizer - text to token ids and back, as the model's own files say.
 *
 *     struct tokenizer *tokenizer = tokenizer_read_folder("models/gemma-3-270m", err);
 *     struct token_list list = {0};
 *     tokenizer_encode(tokenizer, "Hello", 5, true, &list);
 *     struct str text = {0};
 *     tokenizer_decode(tokenizer, list.ids, list.n, true, &text);
 *
 * Two sources: tokenizer.json of a Hugging Face folder (byte-pair encoding by merge
 * rank), and the "llama" vocabulary of a GGUF file (merging by score, as llama.cpp does
 * it); the ids of the two differ in rare texts, such as runs of more than 31 spaces.
 *
 * Decoding what was encoded gives the same bytes, save for U+2581, which both kinds of
 * file use for the space.
 *
 * A tokenizer does not change once it is read: any number of threads may use it at
 * once.
 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "base/base.h"
#include "text/token_list.h"

enum { TOKENIZER_MAX_BYTES = 1 << 28 }; /* of one text */

struct tokenizer;
struct gguf;
struct str;
struct error;

/* Reads FOLDER/tokenizer.json and, where it is there, FOLDER/tokenizer_config.json.
 * What the file asks for and lathe does not do is an error that names it. */
MUST_USE struct tokenizer *tokenizer_read_folder(const char *folder, struct error *err);

/* Reads the vocabulary of an opened GGUF file, which may be closed afterwards. */
MUST_USE struct tokenizer *tokenizer_read_gguf(const struct gguf *gguf,
                                               struct error *err);

/* The same from the texts of the two files; config_length 0 = there is no config.
 * `where` names the first one in messages. */
MUST_USE struct tokenizer *tokenizer_parse(const char *json, size_t length,
                                           const char *config, size_t config_length,
                                           const char *where, struct error *err);

void tokenizer_destroy(struct tokenizer *tokenizer); /* takes NULL */

/*
 * Appends the ids of text[0 .. length), at most TOKENIZER_MAX_BYTES, to *out. Control
 * tokens written out in the text become those tokens. With add_special the tokens that
 * the file puts around a text (for Gemma: BOS in front) are added. Bytes that are not
 * UTF-8 become byte tokens.
 */
void tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
                      size_t length, bool add_special, struct token_list *out);

/*
 * Appends the text of ids[0 .. n) to *out; skip_special leaves out the special tokens
 * (BOS, turn marks). Ids outside the vocabulary give nothing. Byte tokens give their
 * byte, so ids that a model made up may decode to broken UTF-8.
 */
void tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t n,
                      bool skip_special, struct str *out);

/* Ids of the control tokens, -1 where the tokenizer has none. */
int32_t tokenizer_bos(const struct tokenizer *tokenizer);
int32_t tokenizer_eos(const struct tokenizer *tokenizer);
int32_t tokenizer_pad(const struct tokenizer *tokenizer);

/* A hash of everything that the tokenizer was read from: equal for equal files. */
uint64_t tokenizer_fingerprint(const struct tokenizer *tokenizer);

/* Whether encoding with add_special puts BOS in front. */
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);

/* One more than the highest id. */
int32_t tokenizer_n_tokens(const struct tokenizer *tokenizer);

/* The id of the token whose stored text is exactly `text`, or -1. */
int32_t tokenizer_id_of(const struct tokenizer *tokenizer, const char *text);

/* The stored text of a token (U+2581 for spaces), NULL outside the vocabulary. The
 * bytes live as long as the tokenizer and end with NUL. */
const char *tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id);

/* Whether skip_special leaves this token out. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);

#endif
