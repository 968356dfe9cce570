/*
 * tokenizer_json - reads tokenizer.json and tokenizer_config.json of a Hugging Face folder.
 *
 * The file describes a pipeline of named stages. Those that Gemma's files use, and their
 * plain relatives, are done here; any other name is an error, because leaving a stage out
 * would give other ids without a word. The vocabulary and the merges (33 MB for Gemma) are
 * walked by json_scan, the small parts are read as trees.
 */
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/json_scan.h"
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

enum model_field {
    MODEL_TYPE,
    MODEL_DROPOUT,
    MODEL_UNK_TOKEN,
    MODEL_SUBWORD_PREFIX,
    MODEL_WORD_SUFFIX,
    MODEL_FUSE_UNK,
    MODEL_BYTE_FALLBACK,
    MODEL_IGNORE_MERGES,
    MODEL_VOCAB,
    MODEL_MERGES,
    MODEL_COUNT
};

static const char *const model_names[MODEL_COUNT] = {
    "type",
    "dropout",
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
    "vocab",
    "merges",
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

struct reading {
    struct tokenizer *tokenizer;
    const struct json_scan *scan; /* of the whole file */
    struct error *err;
};

/* --- small parts --------------------------------------------------------------------- */

static bool fail(struct reading *reading, const char *what, const char *name)
{
    return error_set(reading->err, ERROR_DATA, "%s: %s \"%s\" is not supported",
                     reading->scan->where, what, name);
}

static bool fail_part(struct reading *reading, const char *part, const char *expected)
{
    return error_set(reading->err, ERROR_DATA, "%s: %s: expected %s",
                     reading->scan->where, part, expected);
}

/* The value at this extent as a tree, or NULL; an absent one gives JSON null. */
static json_t *read_part(struct reading *reading, struct json_scan_extent extent)
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

/* A member that is there and a string, or NULL. */
static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* The literal of {"pattern": {"String": ...}}, not empty, or NULL with an error. */
static const char *literal_of(struct reading *reading, const json_t *stage,
                              const char *part)
{
    const json_t *pattern = json_object_get(stage, "pattern");
    const char *text = text_of(pattern, "String");
    if (json_object_get(pattern, "Regex") != NULL) {
        fail(reading, part, "Regex");
        return NULL;
    }
    if (text == NULL || text[0] == '\0') {
        fail_part(reading, part, "a pattern {\"String\": ...} that is not empty");
        return NULL;
    }
    return text;
}

typedef bool (*stage_fn)(struct reading *reading, const json_t *stage,
                         const char *type);

/* Calls `read` for a stage, or for each of a "Sequence" whose members are under `list`. */
static bool read_stages(struct reading *reading, const json_t *stage, const char *part,
                        const char *list, stage_fn read)
{
    const char *type = text_of(stage, "type");
    if (type == NULL) {
        return fail_part(reading, part, "an object with a \"type\"");
    }
    if (strcmp(type, "Sequence") != 0) {
        return read(reading, stage, type);
    }
    const json_t *members = json_object_get(stage, list);
    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *member = json_array_get(members, i);
        const char *member_type = text_of(member, "type");
        if (member_type == NULL) {
            return fail_part(reading, part, "a list of objects with a \"type\"");
        }
        if (!read(reading, member, member_type)) {
            return false;
        }
    }
    return true;
}

static bool read_normalizer(struct reading *reading, const json_t *stage,
                            const char *type)
{
    struct normalizer *normalizer = &reading->tokenizer->normalizer;
    if (strcmp(type, "Replace") == 0) {
        const char *pattern = literal_of(reading, stage, "normalizer Replace");
        const char *content = text_of(stage, "content");
        if (pattern == NULL) {
            return false;
        }
        if (content == NULL) {
            return fail_part(reading, "normalizer Replace", "a \"content\"");
        }
        normalizer_add(normalizer, NORMALIZER_REPLACE, pattern, content);
        return true;
    }
    if (strcmp(type, "Prepend") == 0) {
        const char *content = text_of(stage, "prepend");
        if (content == NULL) {
            return fail_part(reading, "normalizer Prepend", "a \"prepend\"");
        }
        normalizer_add(normalizer, NORMALIZER_PREPEND, NULL, content);
        return true;
    }
    return fail(reading, "normalizer", type);
}

static bool read_pre_tokenizer(struct reading *reading, const json_t *stage,
                               const char *type)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    if (strcmp(type, "Split") != 0) {
        return fail(reading, "pre_tokenizer", type);
    }
    const char *pattern = literal_of(reading, stage, "pre_tokenizer Split");
    const char *behavior = text_of(stage, "behavior");
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
    return fail(reading, "pre_tokenizer Split behavior",
                behavior == NULL ? "(none)" : behavior);
}

static bool read_decoder(struct reading *reading, const json_t *stage, const char *type)
{
    struct decoder *decoder = &reading->tokenizer->decoder;
    const char *content = text_of(stage, "content");
    if (strcmp(type, "Replace") == 0) {
        const char *pattern = literal_of(reading, stage, "decoder Replace");
        if (pattern == NULL) {
            return false;
        }
        if (content == NULL) {
            return fail_part(reading, "decoder Replace", "a \"content\"");
        }
        decoder_add(decoder, DECODER_REPLACE, pattern, content);
        return true;
    }
    if (strcmp(type, "Strip") == 0) {
        if (content == NULL || content[0] == '\0') {
            return fail_part(reading, "decoder Strip", "a \"content\"");
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
    return fail(reading, "decoder", type);
}

/* The ids of one {"SpecialToken": {"id": NAME}} of the template, behind those there. */
static bool add_affix(struct reading *reading, const json_t *post, const char *name,
                      int32_t *affix, int *n)
{
    const json_t *tokens = json_object_get(post, "special_tokens");
    const json_t *ids = json_object_get(json_object_get(tokens, name), "ids");
    const size_t n_ids = json_array_size(ids);
    if (n_ids == 0 || (size_t)*n + n_ids > TOKENIZER_MAX_AFFIX) {
        return fail_part(reading, "post_processor special_tokens",
                         "1 to 8 ids for each token of the template");
    }
    for (size_t i = 0; i < n_ids; i++) {
        const json_t *id = json_array_get(ids, i);
        const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        size_t length;
        if (vocabulary_text(&reading->tokenizer->vocabulary, value, &length) == NULL) {
            return fail_part(reading, "post_processor special_tokens",
                             "ids of the vocabulary");
        }
        affix[(*n)++] = (int32_t)value;
    }
    return true;
}

static bool read_post_processor(struct reading *reading, const json_t *stage,
                                const char *type)
{
    struct tokenizer *tokenizer = reading->tokenizer;
    if (strcmp(type, "TemplateProcessing") != 0) {
        return fail(reading, "post_processor", type);
    }
    const json_t *single = json_object_get(stage, "single");
    int n_sequences = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const char *name = text_of(json_object_get(item, "SpecialToken"), "id");
        const char *sequence = text_of(json_object_get(item, "Sequence"), "id");
        if (sequence != NULL && strcmp(sequence, "A") == 0) {
            n_sequences++;
        } else if (name == NULL) {
            return fail_part(reading, "post_processor single",
                             "SpecialToken and Sequence A");
        } else if (!(n_sequences == 0
                         ? add_affix(reading, stage, name, tokenizer->prefix,
                                     &tokenizer->n_prefix)
                         : add_affix(reading, stage, name, tokenizer->suffix,
                                     &tokenizer->n_suffix))) {
            return false;
        }
    }
    return n_sequences == 1
               ? true
               : fail_part(reading, "post_processor single", "the sequence A once");
}

/* --- added tokens -------------------------------------------------------------------- */

/* Enters the token where it is looked for: in the raw or in the normalised text. */
static void add_matcher(struct tokenizer *tokenizer, const char *content, size_t length,
                        int32_t id, bool is_normalized)
{
    if (!is_normalized) {
        added_tokens_add(&tokenizer->raw, content, length, id);
        return;
    }
    struct normalizer_text normal = {0};
    struct normalizer_text spare = {0};
    normalizer_run(&tokenizer->normalizer, content, length, &normal, &spare);
    if (normal.n > 0) {
        added_tokens_add(&tokenizer->normalized, normal.text, normal.n, id);
    }
    normalizer_text_deinit(&normal);
    normalizer_text_deinit(&spare);
}

static bool read_added_token(struct reading *reading, const json_t *item)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    struct vocabulary *vocabulary = &reading->tokenizer->vocabulary;
    const char *content = text_of(item, "content");
    const json_t *id_value = json_object_get(item, "id");
    if (content == NULL || content[0] == '\0' || !json_is_integer(id_value)) {
        return fail_part(reading, "added_tokens",
                         "objects with \"id\" and \"content\"");
    }
    for (size_t i = 0; i < ARRAY_LENGTH(flags); i++) {
        if (json_is_true(json_object_get(item, flags[i]))) {
            return error_set(reading->err, ERROR_DATA,
                             "%s: added token \"%s\": \"%s\" is not supported",
                             reading->scan->where, content, flags[i]);
        }
    }
    const json_int_t id = json_integer_value(id_value);
    const size_t length = json_string_length(json_object_get(item, "content"));
    const int32_t known = vocabulary_find(vocabulary, content, length);
    if (known >= 0 && known != id) {
        return error_set(reading->err, ERROR_DATA,
                         "%s: added token \"%s\" has id %lld here and %d in the "
                         "vocabulary",
                         reading->scan->where, content, (long long)id, known);
    }
    if (known < 0 &&
        !vocabulary_add(vocabulary, id, content, length, 0, reading->err)) {
        return error_wrap(reading->err, "%s: added_tokens", reading->scan->where);
    }
    if (json_is_true(json_object_get(item, "special"))) {
        vocabulary->flags[id] |= VOCABULARY_SPECIAL;
    }
    add_matcher(reading->tokenizer, content, length, (int32_t)id,
                json_is_true(json_object_get(item, "normalized")));
    return true;
}

static bool read_added_tokens(struct reading *reading, const json_t *list)
{
    if (!json_is_array(list) && !json_is_null(list)) {
        return fail_part(reading, "added_tokens", "an array");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!read_added_token(reading, json_array_get(list, i))) {
            return false;
        }
    }
    return true;
}

/* --- the model ----------------------------------------------------------------------- */

static bool read_vocab(struct reading *reading, struct json_scan_extent extent)
{
    struct json_scan scan = json_scan_within(reading->scan, extent);
    struct str text = {0};
    bool has_more;
    bool is_done = false;
    if (!json_scan_open(&scan, '{', reading->err)) {
        return false;
    }
    while (json_scan_next(&scan, '}', &has_more, reading->err)) {
        int64_t id;
        if (!has_more) {
            is_done = true;
            break;
        }
        if (!json_scan_key(&scan, &text, reading->err) ||
            !json_scan_integer(&scan, &id, reading->err)) {
            break;
        }
        if (!vocabulary_add(&reading->tokenizer->vocabulary, id, str_text(&text),
                            text.length, VOCABULARY_MODEL, reading->err)) {
            error_wrap(reading->err, "%s: vocab", scan.where);
            break;
        }
    }
    str_deinit(&text);
    return is_done;
}

/* One merge, ["a", "b"] or "a b": both texts in *text, the first one ends at *split. */
static bool read_merge(struct json_scan *scan, struct str *text, struct str *right,
                       size_t *split, struct error *err)
{
    if (json_scan_peek(scan) == '"') {
        if (!json_scan_string(scan, text, err)) {
            return false;
        }
        const char *space = text->length == 0 ? NULL : strchr(text->text, ' ');
        if (space == NULL || strchr(space + 1, ' ') != NULL) {
            return json_scan_fail(scan, err, "a merge is not two texts and a space");
        }
        *split = (size_t)(space - text->text);
        memmove(text->text + *split, space + 1, text->length - *split);
        text->length--;
        return true;
    }
    bool has_more = false;
    if (!json_scan_open(scan, '[', err) || !json_scan_next(scan, ']', &has_more, err)) {
        return false;
    }
    if (!has_more) {
        return json_scan_fail(scan, err, "a merge is not two texts");
    }
    if (!json_scan_string(scan, text, err) ||
        !json_scan_next(scan, ']', &has_more, err)) {
        return false;
    }
    if (!has_more) {
        return json_scan_fail(scan, err, "a merge is not two texts");
    }
    *split = text->length;
    if (!json_scan_string(scan, right, err) ||
        !json_scan_next(scan, ']', &has_more, err)) {
        return false;
    }
    str_add_bytes(text, str_text(right), right->length);
    return has_more ? json_scan_fail(scan, err, "a merge is not two texts") : true;
}

/* Enters one merge with its rank; its three texts must be tokens. */
static bool add_merge(struct reading *reading, const struct json_scan *scan,
                      const struct str *text, size_t split, int64_t rank)
{
    const struct vocabulary *vocabulary = &reading->tokenizer->vocabulary;
    if (rank >= MERGES_NO_RANK) {
        return json_scan_fail(scan, reading->err, "too many merges");
    }
    const char *bytes = str_text(text);
    const struct merge merge = {
        .left = vocabulary_find_model(vocabulary, bytes, split),
        .right = vocabulary_find_model(vocabulary, bytes + split, text->length - split),
        .merged = vocabulary_find_model(vocabulary, bytes, text->length),
        .rank = (int32_t)rank,
    };
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0) {
        return json_scan_fail(
            scan, reading->err,
            "merge %lld, \"%.*s\" and \"%.*s\": not all of the two and "
            "their joined text are in the vocabulary",
            (long long)rank, (int)base_min((int64_t)split, 60), bytes,
            (int)base_min((int64_t)(text->length - split), 60), bytes + split);
    }
    merges_add(&reading->tokenizer->bpe.merges, merge);
    return true;
}

static bool read_merges(struct reading *reading, struct json_scan_extent extent)
{
    struct json_scan scan = json_scan_within(reading->scan, extent);
    struct str text = {0};
    struct str right = {0};
    bool has_more;
    bool is_done = false;
    if (!json_scan_open(&scan, '[', reading->err)) {
        return false;
    }
    for (int64_t rank = 0; json_scan_next(&scan, ']', &has_more, reading->err);
         rank++) {
        size_t split = 0;
        if (!has_more) {
            is_done = true;
            break;
        }
        if (!read_merge(&scan, &text, &right, &split, reading->err) ||
            !add_merge(reading, &scan, &text, split, rank)) {
            break;
        }
    }
    str_deinit(&text);
    str_deinit(&right);
    return is_done;
}

/* The model's settings; what changes merging in a way not done here is refused. */
static bool read_model_settings(struct reading *reading, json_t *const *fields,
                                const char **unknown)
{
    struct bpe *bpe = &reading->tokenizer->bpe;
    const char *type = json_string_value(fields[MODEL_TYPE]);
    if (type == NULL || strcmp(type, "BPE") != 0) {
        return fail(reading, "model type", type == NULL ? "(none)" : type);
    }
    if (json_is_number(fields[MODEL_DROPOUT]) &&
        json_number_value(fields[MODEL_DROPOUT]) > 0) {
        return fail(reading, "model", "dropout");
    }
    static const enum model_field texts[] = {MODEL_SUBWORD_PREFIX, MODEL_WORD_SUFFIX};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        if (json_string_length(fields[texts[i]]) > 0) {
            return fail(reading, "model", model_names[texts[i]]);
        }
    }
    bpe->fuses_unknown = json_is_true(fields[MODEL_FUSE_UNK]);
    bpe->has_byte_fallback = json_is_true(fields[MODEL_BYTE_FALLBACK]);
    bpe->ignores_merges = json_is_true(fields[MODEL_IGNORE_MERGES]);
    *unknown = json_string_value(fields[MODEL_UNK_TOKEN]);
    return true;
}

/* Passes over an object's members and notes where the known ones are. Others are errors
 * when `part` says what they would be, else passed over. */
static bool find_members(struct reading *reading, struct json_scan *scan,
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
            fail(reading, part, str_text(&key));
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

static bool read_model(struct reading *reading, struct json_scan_extent extent)
{
    struct json_scan_extent extents[MODEL_COUNT];
    json_t *fields[MODEL_COUNT] = {NULL};
    const char *unknown = NULL;
    struct bpe *bpe = &reading->tokenizer->bpe;
    bool is_done = false;
    bpe->unknown = -1;
    struct json_scan scan = json_scan_within(reading->scan, extent);
    if (!find_members(reading, &scan, model_names, MODEL_COUNT, "model field",
                      extents)) {
        return false;
    }
    if (extents[MODEL_VOCAB].to == 0 || extents[MODEL_MERGES].to == 0) {
        return fail_part(reading, "model", "\"vocab\" and \"merges\"");
    }
    for (int i = 0; i < MODEL_VOCAB; i++) {
        fields[i] = read_part(reading, extents[i]);
        if (fields[i] == NULL) {
            goto done;
        }
    }
    if (!read_model_settings(reading, fields, &unknown) ||
        !read_vocab(reading, extents[MODEL_VOCAB]) ||
        !read_merges(reading, extents[MODEL_MERGES])) {
        goto done;
    }
    if (unknown != NULL) {
        bpe->unknown = vocabulary_find_model(&reading->tokenizer->vocabulary, unknown,
                                             strlen(unknown));
    }
    is_done = true;
done:
    for (int i = 0; i < MODEL_VOCAB; i++) {
        json_decref(fields[i]);
    }
    return is_done;
}

/* --- whole files --------------------------------------------------------------------- */

/* One small section as a tree, given to its reader. */
static bool read_section(struct reading *reading, enum section section,
                         struct json_scan_extent extent)
{
    json_t *part = read_part(reading, extent);
    if (part == NULL) {
        return error_wrap(reading->err, "%s", section_names[section]);
    }
    bool is_done = true;
    const char *name = section_names[section];
    switch (section) {
    case SECTION_ADDED_TOKENS:
        is_done = read_added_tokens(reading, part);
        break;
    case SECTION_NORMALIZER:
        is_done = json_is_null(part) ||
                  read_stages(reading, part, name, "normalizers", read_normalizer);
        break;
    case SECTION_PRE_TOKENIZER:
        is_done = json_is_null(part) ||
                  read_stages(reading, part, name, "pretokenizers", read_pre_tokenizer);
        break;
    case SECTION_POST_PROCESSOR:
        is_done = json_is_null(part) ||
                  read_stages(reading, part, name, "processors", read_post_processor);
        break;
    case SECTION_DECODER:
        is_done = read_stages(reading, part, name, "decoders", read_decoder);
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

bool tokenizer_json_parse(struct tokenizer *tokenizer, const char *text, size_t length,
                          const char *where, struct error *err)
{
    /* Added tokens need the vocabulary and the normaliser, the template needs both. */
    static const enum section order[] = {SECTION_NORMALIZER, SECTION_ADDED_TOKENS,
                                         SECTION_PRE_TOKENIZER, SECTION_POST_PROCESSOR,
                                         SECTION_DECODER};
    struct json_scan scan = json_scan_view(text, length, where);
    struct reading reading = {.tokenizer = tokenizer, .scan = &scan, .err = err};
    struct json_scan_extent extents[SECTION_COUNT];
    if (!find_members(&reading, &scan, section_names, SECTION_COUNT, "section",
                      extents) ||
        !json_scan_end(&scan, err)) {
        return false;
    }
    if (extents[SECTION_MODEL].to == 0) {
        return fail_part(&reading, "model", "an object of type BPE");
    }
    if (!read_model(&reading, extents[SECTION_MODEL])) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(order); i++) {
        if (!read_section(&reading, order[i], extents[order[i]])) {
            return false;
        }
    }
    return true;
}

/* The token that the config names under a key ("<bos>" or {"content": "<bos>"}); where it
 * does not name one, the first of two usual names that exists; -1 = none. */
static int32_t special_id(const struct tokenizer *tokenizer, const json_t *value,
                          const char *usual, const char *other)
{
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    const char *name =
        json_is_object(value) ? text_of(value, "content") : json_string_value(value);
    if (name != NULL) {
        return vocabulary_find(vocabulary, name, strlen(name));
    }
    const int32_t id = vocabulary_find(vocabulary, usual, strlen(usual));
    return id >= 0 ? id : vocabulary_find(vocabulary, other, strlen(other));
}

/* An explicit add_bos_token or add_eos_token replaces what the template says, as
 * transformers does it. */
static void apply_affix_setting(const json_t *value, int32_t id, int32_t *affix, int *n)
{
    if (!json_is_boolean(value) || id < 0) {
        return;
    }
    *n = json_is_true(value) ? 1 : 0;
    affix[0] = id;
}

/* The special tokens, from the values of tokenizer_config.json (JSON null = not given). */
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

bool tokenizer_json_configure(struct tokenizer *tokenizer, const char *text,
                              size_t length, const char *where, struct error *err)
{
    struct json_scan scan = json_scan_view(text, length, where);
    struct reading reading = {.tokenizer = tokenizer, .scan = &scan, .err = err};
    struct json_scan_extent extents[CONFIG_COUNT] = {{0}};
    json_t *values[CONFIG_COUNT] = {NULL};
    bool is_done = length == 0 || (find_members(&reading, &scan, config_names,
                                                CONFIG_COUNT, NULL, extents) &&
                                   json_scan_end(&scan, err));
    for (int i = 0; is_done && i < CONFIG_COUNT; i++) {
        values[i] = read_part(&reading, extents[i]);
        is_done = values[i] != NULL;
    }
    if (is_done) {
        apply_config(tokenizer, values);
    }
    for (int i = 0; i < CONFIG_COUNT; i++) {
        json_decref(values[i]);
    }
    return is_done;
}

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
