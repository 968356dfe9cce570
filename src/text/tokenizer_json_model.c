/*
 * tokenizer_json_model - vocabulary, merges and added tokens.
 *
 * The vocabulary of Gemma has 262,144 entries and the merges are 514,906 pairs of
 * texts, 33 MB in all. They are walked, not turned into a tree, and each text is looked
 * up as it comes, so loading is bound by the cache misses of those look-ups.
 */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"

enum { BYTES_OF_A_MERGE = 64 }; /* in the file, indented: a guess to start with */

/* The fields of "model"; all of them are known, so that nothing is passed over. */
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

/* {"text": id, ...} One string serves all keys, so reading allocates only what the
 * vocabulary keeps. */
static bool read_vocab(struct tokenizer_json *reading, struct json_scan_extent extent)
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
        /* The text lives until the next key; vocabulary_add copies it. */
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

/* One merge, ["a", "b"] or "a b": both texts in *text, the first one ends at *split.
 * Both spellings occur: newer files write pairs, older ones a text with one space in
 * it, which pairs allow inside tokens and the text does not. */
static bool read_merge(struct json_scan *scan, struct str *text, struct str *right,
                       size_t *split, struct error *err)
{
    if (json_scan_peek(scan) == '"') {
        if (!json_scan_string(scan, text, err)) {
            return false;
        }
        /* Exactly one space: a token that holds one cannot be written this way. */
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

/* Enters one merge with its rank; its three texts must be tokens. Look-ups are among
 * the tokens of the model only; added tokens are entered later and are no results of
 * merging. */
static bool add_merge(struct tokenizer_json *reading, const struct json_scan *scan,
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

/* The place in the list is the rank. A merge that does not parse names line and column,
 * one whose texts are no tokens its number and texts. */
static bool read_merges(struct tokenizer_json *reading, struct json_scan_extent extent)
{
    struct json_scan scan = json_scan_within(reading->scan, extent);
    struct str text = {0};
    struct str right = {0};
    bool has_more;
    bool is_done = false;
    if (!json_scan_open(&scan, '[', reading->err)) {
        return false;
    }
    /* Room at once, from the size of the part in the file, so the table rarely
     * grows. */
    merges_reserve(&reading->tokenizer->bpe.merges,
                   (extent.to - extent.from) / BYTES_OF_A_MERGE);
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

/* The model's settings; what changes merging in a way not done here is refused.
 * *unknown is borrowed from the field; its id can be looked up only after the
 * vocabulary was read. */
static bool read_model_settings(struct tokenizer_json *reading, json_t *const *fields,
                                const char **unknown)
{
    struct bpe *bpe = &reading->tokenizer->bpe;
    const char *type = json_string_value(fields[MODEL_TYPE]);
    if (type == NULL || strcmp(type, "BPE") != 0) {
        return tokenizer_json_refuse(reading, "model type",
                                     type == NULL ? "(none)" : type);
    }
    if (json_is_number(fields[MODEL_DROPOUT]) &&
        json_number_value(fields[MODEL_DROPOUT]) > 0) {
        return tokenizer_json_refuse(reading, "model", "dropout");
    }
    /* Both change the texts of tokens within a word; null and "" mean that they are not
     * used. */
    static const enum model_field texts[] = {MODEL_SUBWORD_PREFIX, MODEL_WORD_SUFFIX};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        if (json_string_length(fields[texts[i]]) > 0) {
            return tokenizer_json_refuse(reading, "model", model_names[texts[i]]);
        }
    }
    bpe->fuses_unknown = json_is_true(fields[MODEL_FUSE_UNK]);
    bpe->has_byte_fallback = json_is_true(fields[MODEL_BYTE_FALLBACK]);
    bpe->ignores_merges = json_is_true(fields[MODEL_IGNORE_MERGES]);
    *unknown = json_string_value(fields[MODEL_UNK_TOKEN]);
    return true;
}

/* The fields before MODEL_VOCAB are small and read as trees; the two big ones are
 * walked. */
bool tokenizer_json_model(struct tokenizer_json *reading,
                          struct json_scan_extent extent)
{
    struct json_scan_extent extents[MODEL_COUNT];
    json_t *fields[MODEL_COUNT] = {NULL};
    const char *unknown = NULL;
    struct bpe *bpe = &reading->tokenizer->bpe;
    bool is_done = false;
    bpe->unknown = -1;
    struct json_scan scan = json_scan_within(reading->scan, extent);
    if (!tokenizer_json_members(reading, &scan, model_names, MODEL_COUNT, "model field",
                                extents)) {
        return false;
    }
    if (extents[MODEL_VOCAB].to == 0 || extents[MODEL_MERGES].to == 0) {
        return tokenizer_json_expect(reading, "model", "\"vocab\" and \"merges\"");
    }
    for (int i = 0; i < MODEL_VOCAB; i++) {
        fields[i] = tokenizer_json_tree(reading, extents[i]);
        if (fields[i] == NULL) {
            goto done;
        }
    }
    if (!read_model_settings(reading, fields, &unknown) ||
        !read_vocab(reading, extents[MODEL_VOCAB]) ||
        !read_merges(reading, extents[MODEL_MERGES])) {
        goto done;
    }
    /* A name that is not in the vocabulary gives -1: such characters are then left
     * out. */
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

/* --- added tokens ----------------------------------------------------------------- */

/* Enters the token where it is looked for: in the raw or in the normalised text. For
 * the second the token itself is normalised as the text will be; one of which nothing
 * is left would match everywhere and is not entered. */
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

/* single_word, lstrip and rstrip change what around a token is matched with it; they
 * are refused when set, as ignoring them would give other ids. A token may be in the
 * vocabulary already, with the same id, and then keeps its VOCABULARY_MODEL flag. */
static bool read_added_token(struct tokenizer_json *reading, const json_t *item)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    struct vocabulary *vocabulary = &reading->tokenizer->vocabulary;
    const char *content = tokenizer_json_text(item, "content");
    const json_t *id_value = json_object_get(item, "id");
    if (content == NULL || content[0] == '\0' || !json_is_integer(id_value)) {
        return tokenizer_json_expect(reading, "added_tokens",
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
    /* Not a result of merging, hence without VOCABULARY_MODEL. */
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

/* Comes after the normaliser was read, because add_matcher runs it. */
bool tokenizer_json_added(struct tokenizer_json *reading, const json_t *list)
{
    if (!json_is_array(list) && !json_is_null(list)) {
        return tokenizer_json_expect(reading, "added_tokens", "an array");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!read_added_token(reading, json_array_get(list, i))) {
            return false;
        }
    }
    return true;
}
