/*
 * tokenizer_write_rules - the parts of tokenizer.json that say what happens around
 * merging; only for tokenizer_write.c.
 *
 * All take a tokenizer that was read from a GGUF file.
 */
#ifndef TEXT_TOKENIZER_WRITE_RULES_H
#define TEXT_TOKENIZER_WRITE_RULES_H

#include "base/base.h"

struct json_write;
struct tokenizer;

/* Whether a mark stands before every text (tokenizer.ggml.add_space_prefix). */
bool tokenizer_write_rules_has_prefix(const struct tokenizer *tokenizer);

/* The members "normalizer" and "pre_tokenizer". */
void tokenizer_write_rules_before(const struct tokenizer *tokenizer,
                                  struct json_write *json);

/* "post_processor": the tokens around a text. */
void tokenizer_write_rules_template(const struct tokenizer *tokenizer,
                                    struct json_write *json);

/* "decoder": from token texts to text. */
void tokenizer_write_rules_decoder(const struct tokenizer *tokenizer,
                                   struct json_write *json);

#endif
