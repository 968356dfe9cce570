/*
 * tokenizer_write - the vocabulary of a GGUF file in the form of a Hugging Face folder.
 *
 * tokenizer.json gets the texts, the merges that the scores stand for (piece_merges.h),
 * the control and user-defined pieces as added tokens, and the rules for spaces;
 * tokenizer_config.json and special_tokens_map.json name the special tokens, and the
 * first one holds the chat template where the file has one. For the vocabulary of Gemma 3
 * tokenizer.json is the published file byte for byte.
 *
 *     if (!tokenizer_write_folder(gguf, "model", err)) ...
 *
 * The ids of the result are those of the Hugging Face library, which differ from
 * llama.cpp's in rare texts (tokenizer.h).
 */
#ifndef TEXT_TOKENIZER_WRITE_H
#define TEXT_TOKENIZER_WRITE_H

#include "base/base.h"

struct error;
struct gguf;
struct str;

/* Writes the three files into `folder`, which is there; each is whole or not there. A
 * vocabulary that JSON cannot hold (a token that is not UTF-8) is an error. */
MUST_USE bool tokenizer_write_folder(const struct gguf *gguf, const char *folder,
                                     struct error *err);

/* The same from the path of the file. */
MUST_USE bool tokenizer_write_from(const char *gguf_path, const char *folder,
                                   struct error *err);

/* The texts of tokenizer.json and tokenizer_config.json, appended. */
MUST_USE bool tokenizer_write_json(const struct gguf *gguf, struct str *out,
                                   struct error *err);
MUST_USE bool tokenizer_write_config(const struct gguf *gguf, struct str *out,
                                     struct error *err);

#endif
