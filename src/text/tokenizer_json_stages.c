/*
 * tokenizer_json_stages - normaliser, pre-tokeniser, post-processor and decoder.
 *
 * Each is one object with a "type", or a "Sequence" of such. A type that is not known
 * here is refused by name: leaving a stage out would give other ids without a word.
 */
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"

/* The literal of {"pattern": {"String": ...}}, not empty, or NULL with an error.
 * Regular expressions are refused: no file of Gemma has one, and a matcher that is
 * almost the right one would give almost the right ids. */
static const char *literal_of(struct tokenizer_json *reading, const json_t *stage,
                              const char *part)
{
    const json_t *pattern = json_object_get(stage, "pattern");
    const char *text = tokenizer_json_text(pattern, "String");
    if (json_object_get(pattern, "Regex") != NULL) {
        tokenizer_json_refuse(reading, part, "Regex");
        return NULL;
    }
    if (text == NULL || text[0] == '\0') {
        tokenizer_json_expect(reading, part,
                              "a pattern {\"String\": ...} that is not empty");
        return NULL;
    }
    return text;
}

/* Reads one stage of this type. */
typedef bool (*stage_fn)(struct tokenizer_json *reading, const json_t *stage,
                         const char *type);

/* Calls `read` for a stage, or for each of a "Sequence" whose members are under `list`.
 * The list under `list` may be empty, which makes a stage that does nothing. A Sequence
 * inside a Sequence reaches `read`, which refuses it by name. */
static bool read_stages(struct tokenizer_json *reading, const json_t *stage,
                        const char *part, const char *list, stage_fn read)
{
    const char *type = tokenizer_json_text(stage, "type");
    if (type == NULL) {
        return tokenizer_json_expect(reading, part, "an object with a \"type\"");
    }
    if (strcmp(type, "Sequence") != 0) {
        return read(reading, stage, type);
    }
    const json_t *members = json_object_get(stage, list);
    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *member = json_array_get(members, i);
        const char *member_type = tokenizer_json_text(member, "type");
        if (member_type == NULL) {
            return tokenizer_json_expect(reading, part,
                                         "a list of objects with a \"type\"");
        }
        if (!read(reading, member, member_type)) {
            return false;
        }
    }
    return true;
}

/* Replace {pattern, content} and Prepend {prepend}. An empty content is a deletion. */
static bool read_normalizer(struct tokenizer_json *reading, const json_t *stage,
                            const char *type)
{
    struct normalizer *normalizer = &reading->tokenizer->normalizer;
    if (strcmp(type, "Replace") == 0) {
        const char *pattern = literal_of(reading, stage, "normalizer Replace");
        const char *content = tokenizer_json_text(stage, "content");
        if (pattern == NULL) {
            return false;
        }
        if (content == NULL) {
            return tokenizer_json_expect(reading, "normalizer Replace",
                                         "a \"content\"");
        }
        normalizer_add(normalizer, NORMALIZER_REPLACE, pattern, content);
        return true;
    }
    if (strcmp(type, "Prepend") == 0) {
        const char *content = tokenizer_json_text(stage, "prepend");
        if (content == NULL) {
            return tokenizer_json_expect(reading, "normalizer Prepend",
                                         "a \"prepend\"");
        }
        normalizer_add(normalizer, NORMALIZER_PREPEND, NULL, content);
        return true;
    }
    return tokenizer_json_refuse(reading, "normalizer", type);
}

/* Split {pattern, behavior, invert}; the names stand in the order of the enum. Steps
 * are added in the order of the file and applied in that order. */
static bool read_pre_tokenizer(struct tokenizer_json *reading, const json_t *stage,
                               const char *type)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    if (strcmp(type, "Split") != 0) {
        return tokenizer_json_refuse(reading, "pre_tokenizer", type);
    }
    const char *pattern = literal_of(reading, stage, "pre_tokenizer Split");
    const char *behavior = tokenizer_json_text(stage, "behavior");
    if (pattern == NULL) {
        return false;
    }
    for (size_t i = 0; behavior != NULL && i < ARRAY_LENGTH(names); i++) {
        if (strcmp(behavior, names[i]) == 0) {
            splitter_add(&reading->tokenizer->splitter, pattern,
                         (enum splitter_behavior)i,
                         json_is_true(json_object_get(stage, "invert")));
            return true;
        }
    }
    return tokenizer_json_refuse(reading, "pre_tokenizer Split behavior",
                                 behavior == NULL ? "(none)" : behavior);
}

/* Replace {pattern, content}, Strip {content, start, stop}, ByteFallback, Fuse. Missing
 * counts of Strip read as 0, which strips nothing. */
static bool read_decoder(struct tokenizer_json *reading, const json_t *stage,
                         const char *type)
{
    struct decoder *decoder = &reading->tokenizer->decoder;
    const char *content = tokenizer_json_text(stage, "content");
    if (strcmp(type, "Replace") == 0) {
        const char *pattern = literal_of(reading, stage, "decoder Replace");
        if (pattern == NULL) {
            return false;
        }
        if (content == NULL) {
            return tokenizer_json_expect(reading, "decoder Replace", "a \"content\"");
        }
        decoder_add(decoder, DECODER_REPLACE, pattern, content);
        return true;
    }
    if (strcmp(type, "Strip") == 0) {
        if (content == NULL || content[0] == '\0') {
            return tokenizer_json_expect(reading, "decoder Strip", "a \"content\"");
        }
        decoder_add_strip(decoder, content,
                          json_integer_value(json_object_get(stage, "start")),
                          json_integer_value(json_object_get(stage, "stop")));
        return true;
    }
    if (strcmp(type, "ByteFallback") == 0) {
        decoder_add(decoder, DECODER_BYTE_FALLBACK, NULL, NULL);
        return true;
    }
    if (strcmp(type, "Fuse") == 0) {
        decoder_add(decoder, DECODER_FUSE, NULL, NULL);
        return true;
    }
    return tokenizer_json_refuse(reading, "decoder", type);
}

/* The ids of one {"SpecialToken": {"id": NAME}} of the template, behind those there.
 * Ids are checked against the vocabulary, as they go straight into what is encoded. */
static bool add_affix(struct tokenizer_json *reading, const json_t *post,
                      const char *name, int32_t *affix, int *n)
{
    const json_t *tokens = json_object_get(post, "special_tokens");
    const json_t *ids = json_object_get(json_object_get(tokens, name), "ids");
    /* jansson gives 0 for anything that is no array, so a missing token fails here. */
    const size_t n_ids = json_array_size(ids);
    if (n_ids == 0 || (size_t)*n + n_ids > TOKENIZER_MAX_AFFIX) {
        return tokenizer_json_expect(reading, "post_processor special_tokens",
                                     "1 to 8 ids for each token of the template");
    }
    for (size_t i = 0; i < n_ids; i++) {
        const json_t *id = json_array_get(ids, i);
        const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        size_t length;
        if (vocabulary_text(&reading->tokenizer->vocabulary, value, &length) == NULL) {
            return tokenizer_json_expect(reading, "post_processor special_tokens",
                                         "ids of the vocabulary");
        }
        affix[(*n)++] = (int32_t)value;
    }
    return true;
}

/* TemplateProcessing: the special tokens before and after the sequence A of "single";
 * the template for pairs is not used. Tokens before the sequence are the prefix, those
 * after it the suffix; without exactly one sequence there would be no telling them
 * apart. */
static bool read_post_processor(struct tokenizer_json *reading, const json_t *stage,
                                const char *type)
{
    struct tokenizer *tokenizer = reading->tokenizer;
    if (strcmp(type, "TemplateProcessing") != 0) {
        return tokenizer_json_refuse(reading, "post_processor", type);
    }
    const json_t *single = json_object_get(stage, "single");
    int n_sequences = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const char *name =
            tokenizer_json_text(json_object_get(item, "SpecialToken"), "id");
        const char *sequence =
            tokenizer_json_text(json_object_get(item, "Sequence"), "id");
        if (sequence != NULL && strcmp(sequence, "A") == 0) {
            n_sequences++;
        } else if (name == NULL) {
            return tokenizer_json_expect(reading, "post_processor single",
                                         "SpecialToken and Sequence A");
        } else if (!(n_sequences == 0
                         ? add_affix(reading, stage, name, tokenizer->prefix,
                                     &tokenizer->n_prefix)
                         : add_affix(reading, stage, name, tokenizer->suffix,
                                     &tokenizer->n_suffix))) {
            return false;
        }
    }
    return n_sequences == 1 ? true
                            : tokenizer_json_expect(reading, "post_processor single",
                                                    "the sequence A once");
}

/* --- whole parts ------------------------------------------------------------------ */

bool tokenizer_json_normalizer(struct tokenizer_json *reading, const json_t *part)
{
    return read_stages(reading, part, "normalizer", "normalizers", read_normalizer);
}

bool tokenizer_json_pre_tokenizer(struct tokenizer_json *reading, const json_t *part)
{
    return read_stages(reading, part, "pre_tokenizer", "pretokenizers",
                       read_pre_tokenizer);
}

bool tokenizer_json_post_processor(struct tokenizer_json *reading, const json_t *part)
{
    return read_stages(reading, part, "post_processor", "processors",
                       read_post_processor);
}

bool tokenizer_json_decoder(struct tokenizer_json *reading, const json_t *part)
{
    return read_stages(reading, part, "decoder", "decoders", read_decoder);
}
