/*
 * tokenizer_json - reads tokenizer.json and tokenizer_config.json of a Hugging Face
 * folder.
 *
 * The file describes a pipeline of named stages. Those that Gemma's files use, and
 * their plain relatives, are done; any other name is an error. This file finds the
 * parts and calls their readers in the order in which they need each other.
 */
#include "text/tokenizer_json.h"

#include <string.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lfs_pointer.h"
#include "base/str.h"
#include "text/tokenizer_parts.h"

/* The stages of the file, passed over first: merges may come before the vocabulary. */
enum section {
    SECTION_VERSION,
    SECTION_TRUNCATION, /* of batches; examples are cut and filled by data/ */
    SECTION_PADDING,
    SECTION_ADDED_TOKENS,
    SECTION_NORMALIZER,
    SECTION_PRE_TOKENIZER,
    SECTION_POST_PROCESSOR,
    SECTION_DECODER,
    SECTION_MODEL,
    SECTION_COUNT
};

static const char *const section_names[SECTION_COUNT] = {
    "version",       "truncation",     "padding", "added_tokens", "normalizer",
    "pre_tokenizer", "post_processor", "decoder", "model",
};

/* Keys of tokenizer_config.json that matter here; the others are passed over. */
enum config_field {
    CONFIG_BOS,
    CONFIG_EOS,
    CONFIG_PAD,
    CONFIG_ADD_BOS,
    CONFIG_ADD_EOS,
    CONFIG_COUNT
};

static const char *const config_names[CONFIG_COUNT] = {
    "bos_token", "eos_token", "pad_token", "add_bos_token", "add_eos_token",
};

/* --- shared by the readers of the parts ------------------------------------------- */

/* For a name that lathe does not know. */
bool tokenizer_json_refuse(struct tokenizer_json *reading, const char *what,
                           const char *name)
{
    return error_set(reading->err, ERROR_DATA, "%s: %s \"%s\" is not supported",
                     reading->scan->where, what, name);
}

/* For a part that is not what it should be. */
bool tokenizer_json_expect(struct tokenizer_json *reading, const char *part,
                           const char *expected)
{
    return error_set(reading->err, ERROR_DATA, "%s: %s: expected %s",
                     reading->scan->where, part, expected);
}

/* Small parts only: the vocabulary and the merges never come here. */
json_t *tokenizer_json_tree(struct tokenizer_json *reading,
                            struct json_scan_extent extent)
{
    if (extent.to == 0) {
        return json_null();
    }
    const char *text = reading->scan->text + extent.from;
    /* Scalars are wrapped, as json_parse takes only arrays and objects. */
    if (*text == '{' || *text == '[') {
        return json_parse(text, extent.to - extent.from, reading->scan->where,
                          reading->err);
    }
    struct str wrapped = {0};
    str_add_char(&wrapped, '[');
    str_add_bytes(&wrapped, text, extent.to - extent.from);
    str_add_char(&wrapped, ']');
    json_t *array =
        json_parse(wrapped.text, wrapped.length, reading->scan->where, reading->err);
    json_t *value = array == NULL ? NULL : json_incref(json_array_get(array, 0));
    json_decref(array);
    str_deinit(&wrapped);
    return value;
}

/* jansson gives NULL for a missing member, for another type and for an object that is
 * NULL, so chains of look-ups need one check at their end. */
const char *tokenizer_json_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* An extent that ends at 0 stands for an absent member: no value of a file can end
 * there. A name that comes twice is refused, as readers of JSON differ in which one
 * counts. */
bool tokenizer_json_members(struct tokenizer_json *reading, struct json_scan *scan,
                            const char *const *names, int n_names, const char *part,
                            struct json_scan_extent *extents)
{
    struct str key = {0};
    bool has_more;
    bool is_done = false;
    memset(extents, 0, (size_t)n_names * sizeof(*extents));
    if (!json_scan_open(scan, '{', reading->err)) {
        return false;
    }
    while (json_scan_next(scan, '}', &has_more, reading->err)) {
        int i = 0;
        if (!has_more) {
            is_done = true;
            break;
        }
        if (!json_scan_key(scan, &key, reading->err)) {
            break;
        }
        while (i < n_names && strcmp(names[i], str_text(&key)) != 0) {
            i++;
        }
        struct json_scan_extent other = {0};
        struct json_scan_extent *extent = i < n_names ? &extents[i] : &other;
        if (i == n_names && part != NULL) {
            tokenizer_json_refuse(reading, part, str_text(&key));
            break;
        }
        if (extent->to != 0) {
            json_scan_fail(scan, reading->err, "\"%s\" is given twice", names[i]);
            break;
        }
        if (!json_scan_skip(scan, extent, reading->err)) {
            break;
        }
    }
    str_deinit(&key);
    return is_done;
}

/* --- whole files ------------------------------------------------------------------ */

/* One small section as a tree, given to its reader. The decoder is asked even when it
 * is null, because a tokenizer without one cannot turn ids to text. */
static bool read_section(struct tokenizer_json *reading, enum section section,
                         struct json_scan_extent extent)
{
    json_t *part = tokenizer_json_tree(reading, extent);
    if (part == NULL) {
        return error_wrap(reading->err, "%s", section_names[section]);
    }
    bool is_done = true;
    switch (section) {
    case SECTION_ADDED_TOKENS:
        is_done = tokenizer_json_added(reading, part);
        break;
    case SECTION_NORMALIZER:
        is_done = json_is_null(part) || tokenizer_json_normalizer(reading, part);
        break;
    case SECTION_PRE_TOKENIZER:
        is_done = json_is_null(part) || tokenizer_json_pre_tokenizer(reading, part);
        break;
    case SECTION_POST_PROCESSOR:
        is_done = json_is_null(part) || tokenizer_json_post_processor(reading, part);
        break;
    case SECTION_DECODER:
        is_done = tokenizer_json_decoder(reading, part);
        break;
    case SECTION_VERSION:
    case SECTION_TRUNCATION:
    case SECTION_PADDING:
    case SECTION_MODEL:
    case SECTION_COUNT:
        break;
    }
    json_decref(part);
    return is_done;
}

/* Finds the parts, then reads them in an order in which each finds what it needs.
 * Places first, contents second: JSON objects have no order, so a file may name merges
 * before the vocabulary they refer to. */
bool tokenizer_json_parse(struct tokenizer *tokenizer, const char *text, size_t length,
                          const char *where, struct error *err)
{
    /* Added tokens need the vocabulary and the normaliser, the template needs both. */
    static const enum section order[] = {SECTION_NORMALIZER, SECTION_ADDED_TOKENS,
                                         SECTION_PRE_TOKENIZER, SECTION_POST_PROCESSOR,
                                         SECTION_DECODER};
    struct json_scan scan = json_scan_view(text, length, where);
    struct tokenizer_json reading = {.tokenizer = tokenizer, .scan = &scan, .err = err};
    struct json_scan_extent extents[SECTION_COUNT];
    if (!lfs_pointer_check(text, length, where, err) ||
        !tokenizer_json_members(&reading, &scan, section_names, SECTION_COUNT,
                                "section", extents) ||
        !json_scan_end(&scan, err)) {
        return false;
    }
    if (extents[SECTION_MODEL].to == 0) {
        return tokenizer_json_expect(&reading, "model", "an object of type BPE");
    }
    if (!tokenizer_json_model(&reading, extents[SECTION_MODEL])) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(order); i++) {
        if (!read_section(&reading, order[i], extents[order[i]])) {
            return false;
        }
    }
    tokenizer->fingerprint = XXH3_64bits(text, length);
    return true;
}

/* The token that the config names under a key ("<bos>" or {"content": "<bos>"}); where
 * it does not name one, the first of two usual names that exists; -1 = none. A name
 * that is given but not in the vocabulary gives -1, not the usual one: the file has
 * said what it wants. */
static int32_t special_id(const struct tokenizer *tokenizer, const json_t *value,
                          const char *usual, const char *other)
{
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    const char *name = json_is_object(value) ? tokenizer_json_text(value, "content")
                                             : json_string_value(value);
    if (name != NULL) {
        return vocabulary_find(vocabulary, name, strlen(name));
    }
    const int32_t id = vocabulary_find(vocabulary, usual, strlen(usual));
    return id >= 0 ? id : vocabulary_find(vocabulary, other, strlen(other));
}

/* An explicit add_bos_token or add_eos_token replaces what the template says, as
 * transformers does it. The template is left alone where the setting is absent or the
 * token does not exist. */
static void apply_affix_setting(const json_t *value, int32_t id, int32_t *affix, int *n)
{
    if (!json_is_boolean(value) || id < 0) {
        return;
    }
    *n = json_is_true(value) ? 1 : 0;
    affix[0] = id;
}

/* The special tokens, from the values of tokenizer_config.json (JSON null = not
 * given). */
static void apply_config(struct tokenizer *tokenizer, json_t *const *values)
{
    tokenizer->bos = special_id(tokenizer, values[CONFIG_BOS], "<bos>", "<s>");
    tokenizer->eos = special_id(tokenizer, values[CONFIG_EOS], "<eos>", "</s>");
    tokenizer->pad = special_id(tokenizer, values[CONFIG_PAD], "<pad>", "[PAD]");
    apply_affix_setting(values[CONFIG_ADD_BOS], tokenizer->bos, tokenizer->prefix,
                        &tokenizer->n_prefix);
    apply_affix_setting(values[CONFIG_ADD_EOS], tokenizer->eos, tokenizer->suffix,
                        &tokenizer->n_suffix);
}

/* tokenizer_config.json holds integers that no tree parser takes (model_max_length
 * 1e30), so it is walked and only the values of interest are read. */
bool tokenizer_json_configure(struct tokenizer *tokenizer, const char *text,
                              size_t length, const char *where, struct error *err)
{
    struct json_scan scan = json_scan_view(text, length, where);
    struct tokenizer_json reading = {.tokenizer = tokenizer, .scan = &scan, .err = err};
    struct json_scan_extent extents[CONFIG_COUNT] = {{0}};
    json_t *values[CONFIG_COUNT] = {NULL};
    bool is_done =
        length == 0 || (tokenizer_json_members(&reading, &scan, config_names,
                                               CONFIG_COUNT, NULL, extents) &&
                        json_scan_end(&scan, err));
    for (int i = 0; is_done && i < CONFIG_COUNT; i++) {
        values[i] = tokenizer_json_tree(&reading, extents[i]);
        is_done = values[i] != NULL;
    }
    if (is_done) {
        apply_config(tokenizer, values);
        tokenizer->fingerprint =
            XXH3_64bits_withSeed(text, length, tokenizer->fingerprint);
    }
    for (int i = 0; i < CONFIG_COUNT; i++) {
        json_decref(values[i]);
    }
    return is_done;
}

/* Maps are closed between the two files: nothing read from them points into them any
 * more. A config that is not there reads as a text of length 0. */
bool tokenizer_json_read(struct tokenizer *tokenizer, const char *path,
                         const char *config_path, struct error *err)
{
    struct file_map map = {0};
    if (!file_map_open(&map, path, err)) {
        return false;
    }
    bool is_done =
        tokenizer_json_parse(tokenizer, (const char *)map.bytes, map.length, path, err);
    file_map_close(&map);
    map = (struct file_map){0};
    if (is_done && config_path != NULL && !file_map_open(&map, config_path, err)) {
        return false;
    }
    is_done = is_done && tokenizer_json_configure(tokenizer, (const char *)map.bytes,
                                                  map.length, config_path, err);
    file_map_close(&map);
    return is_done;
}
