/*
 * tokenizer_write_rules - see the header.
 */
#include "text/tokenizer_write_rules.h"

#include "base/json_write.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

#define MARK "\xe2\x96\x81" /* U+2581 */

/* {"type": "Replace", "pattern": {"String": from}, "content": to} */
static void write_replace(struct json_write *json, const char *key, const char *from,
                          const char *to)
{
    json_write_begin(json, key, '{');
    json_write_string(json, "type", "Replace");
    json_write_begin(json, "pattern", '{');
    json_write_string(json, "String", from);
    json_write_end(json);
    json_write_string(json, "content", to);
    json_write_end(json);
}

/* Whether a mark stands before every text (tokenizer.ggml.add_space_prefix): the reader
 * made the strip step of the decoder for it. */
bool tokenizer_write_rules_has_prefix(const struct tokenizer *tokenizer)
{
    const struct decoder *decoder = &tokenizer->decoder;
    return decoder->steps[decoder->n - 1].kind == DECODER_STRIP;
}

/* Spaces to marks. After that there is no space left for the words to be cut at: the
 * splitter stands in the published files all the same. */
void tokenizer_write_rules_before(const struct tokenizer *tokenizer,
                                  struct json_write *json)
{
    if (!tokenizer_write_rules_has_prefix(tokenizer)) {
        write_replace(json, "normalizer", " ", MARK);
        json_write_begin(json, "pre_tokenizer", '{');
        json_write_string(json, "type", "Split");
        json_write_begin(json, "pattern", '{');
        json_write_string(json, "String", " ");
        json_write_end(json);
        json_write_string(json, "behavior", "MergedWithPrevious");
        json_write_bool(json, "invert", false);
        json_write_end(json);
        return;
    }
    json_write_begin(json, "normalizer", '{');
    json_write_string(json, "type", "Sequence");
    json_write_begin(json, "normalizers", '[');
    json_write_begin(json, NULL, '{');
    json_write_string(json, "type", "Prepend");
    json_write_string(json, "prepend", MARK);
    json_write_end(json);
    write_replace(json, NULL, " ", MARK);
    json_write_end(json);
    json_write_end(json);
    json_write_null(json, "pre_tokenizer");
}

/* One part of a template: a special token, or the sequence "A" or "B". */
static void write_part(struct json_write *json, const char *kind, const char *id,
                       int type_id)
{
    json_write_begin(json, NULL, '{');
    json_write_begin(json, kind, '{');
    json_write_string(json, "id", id);
    json_write_integer(json, "type_id", type_id);
    json_write_end(json);
    json_write_end(json);
}

/* A sequence with what the file puts around one. */
static void write_sequence(const struct tokenizer *tokenizer, struct json_write *json,
                           const char *id, int type_id)
{
    for (int i = 0; i < tokenizer->n_prefix; i++) {
        write_part(json, "SpecialToken",
                   tokenizer_token_text(tokenizer, tokenizer->prefix[i]), type_id);
    }
    write_part(json, "Sequence", id, type_id);
    for (int i = 0; i < tokenizer->n_suffix; i++) {
        write_part(json, "SpecialToken",
                   tokenizer_token_text(tokenizer, tokenizer->suffix[i]), type_id);
    }
}

/* The entry of a special token of the template. */
static void write_special(const struct tokenizer *tokenizer, struct json_write *json,
                          int32_t id)
{
    const char *name = tokenizer_token_text(tokenizer, id);
    json_write_begin(json, name, '{');
    json_write_string(json, "id", name);
    json_write_begin(json, "ids", '[');
    json_write_integer(json, NULL, id);
    json_write_end(json);
    json_write_begin(json, "tokens", '[');
    json_write_string(json, NULL, name);
    json_write_end(json);
    json_write_end(json);
}

void tokenizer_write_rules_template(const struct tokenizer *tokenizer,
                                    struct json_write *json)
{
    if (tokenizer->n_prefix + tokenizer->n_suffix == 0) {
        json_write_null(json, "post_processor");
        return;
    }
    json_write_begin(json, "post_processor", '{');
    json_write_string(json, "type", "TemplateProcessing");
    json_write_begin(json, "single", '[');
    write_sequence(tokenizer, json, "A", 0);
    json_write_end(json);
    json_write_begin(json, "pair", '[');
    write_sequence(tokenizer, json, "A", 0);
    write_sequence(tokenizer, json, "B", 1);
    json_write_end(json);
    json_write_begin(json, "special_tokens", '{');
    for (int i = 0; i < tokenizer->n_prefix; i++) {
        write_special(tokenizer, json, tokenizer->prefix[i]);
    }
    /* A token that stands at both ends has one entry. */
    for (int i = 0; i < tokenizer->n_suffix; i++) {
        if (tokenizer->n_prefix == 0 || tokenizer->suffix[i] != tokenizer->prefix[0]) {
            write_special(tokenizer, json, tokenizer->suffix[i]);
        }
    }
    json_write_end(json);
    json_write_end(json);
}

/* Marks to spaces, byte tokens to bytes; the space of the prefix goes last. */
void tokenizer_write_rules_decoder(const struct tokenizer *tokenizer,
                                   struct json_write *json)
{
    json_write_begin(json, "decoder", '{');
    json_write_string(json, "type", "Sequence");
    json_write_begin(json, "decoders", '[');
    write_replace(json, NULL, MARK, " ");
    static const char *const kinds[] = {"ByteFallback", "Fuse"};
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        json_write_begin(json, NULL, '{');
        json_write_string(json, "type", kinds[i]);
        json_write_end(json);
    }
    if (tokenizer_write_rules_has_prefix(tokenizer)) {
        json_write_begin(json, NULL, '{');
        json_write_string(json, "type", "Strip");
        json_write_string(json, "content", " ");
        json_write_integer(json, "start", 1);
        json_write_integer(json, "stop", 0);
        json_write_end(json);
    }
    json_write_end(json);
    json_write_end(json);
}
