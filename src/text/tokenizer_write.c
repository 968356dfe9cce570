/*
 * tokenizer_write - see the header.
 *
 * The vocabulary is read as for use (tokenizer_read_gguf), which checks it and gives the
 * ranks of the scores. Two things differ between the two forms:
 *
 * - Runs of spaces. In GGUF they are user-defined pieces of real spaces, found before
 *   spaces become U+2581; in tokenizer.json they are runs of U+2581, made by merges.
 * - User-defined pieces have no score that says anything. Their merges stand where their
 *   ids stand among the pieces that have one: Gemma's runs of spaces come first.
 */
#include "text/tokenizer_write.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "text/piece_merges.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"
#include "text/tokenizer_write_rules.h"

/* Longer runs of spaces stay added tokens, so that the search for runs that merges reach
 * stays small. */
enum { MAX_RUN = 1024 };

#define MARK "\xe2\x96\x81" /* U+2581 */

/* One vocabulary on its way out. */
struct pieces {
    struct tokenizer *tokenizer;  /* as it is used */
    struct vocabulary vocabulary; /* texts as tokenizer.json has them */
    const int32_t *types;         /* [n] enum tokenizer_piece; NULL: all normal */
    bool *is_run;                 /* [n] spaces that became U+2581 */
    size_t n;
};

/* A file without types has only normal pieces. */
static int32_t type_of(const struct pieces *pieces, size_t id)
{
    return pieces->types == NULL ? PIECE_NORMAL : pieces->types[id];
}

/* Pieces that are found in the text before anything else is done to it. */
static bool is_added(const struct pieces *pieces, size_t id)
{
    const int32_t type = type_of(pieces, id);
    return !pieces->is_run[id] && (type == PIECE_CONTROL || type == PIECE_UNKNOWN ||
                                   type == PIECE_USER_DEFINED);
}

/* n marks in place of n spaces. */
static void make_run(struct str *out, size_t n)
{
    str_clear(out);
    for (size_t i = 0; i < n; i++) {
        str_add(out, MARK);
    }
}

/* Spaces in a user-defined piece that is nothing else, up to MAX_RUN; else 0. */
static size_t run_length(const struct pieces *pieces, size_t id)
{
    size_t length;
    const char *text =
        vocabulary_text(&pieces->tokenizer->vocabulary, (int64_t)id, &length);
    const bool is_spaces = type_of(pieces, id) == PIECE_USER_DEFINED &&
                           length <= MAX_RUN && strspn(text, " ") == length;
    return is_spaces ? length : 0;
}

/*
 * Which runs of spaces can be written as runs of U+2581: those whose new text is not
 * taken, and that merges put together from shorter ones. (A run of one mark is a
 * character, which merging starts from.)
 */
static void find_runs(struct pieces *pieces)
{
    const struct vocabulary *vocabulary = &pieces->tokenizer->vocabulary;
    int32_t run_of[MAX_RUN + 1]; /* id of the piece of n spaces, -1 = none */
    bool is_reached[MAX_RUN + 1] = {false};
    memset(run_of, 0xFF, sizeof(run_of));
    for (size_t i = 0; i < pieces->n; i++) {
        const size_t length = run_length(pieces, i);
        if (length > 0) {
            run_of[length] = (int32_t)i;
        }
    }
    struct str text = {0};
    for (size_t n = 1; n <= MAX_RUN; n++) {
        make_run(&text, n);
        is_reached[n] = vocabulary_find(vocabulary, text.text, text.length) >= 0;
        for (size_t left = 1; left < n && run_of[n] >= 0 && !is_reached[n]; left++) {
            pieces->is_run[run_of[n]] = is_reached[left] && is_reached[n - left];
            is_reached[n] = pieces->is_run[run_of[n]];
        }
    }
    str_deinit(&text);
}

/* Whether JSON can hold it. */
static bool is_utf8(const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        const int bytes = str_utf8_length(text + at, length - at);
        if (bytes == 0) {
            return false;
        }
        at += (size_t)bytes;
    }
    return true;
}

/* The new texts. JSON holds nothing but UTF-8, and a piece too long to be cut would lose
 * its merges. */
static bool fill_vocabulary(struct pieces *pieces, struct error *err)
{
    struct str run = {0};
    bool done = true;
    for (size_t i = 0; i < pieces->n && done; i++) {
        size_t length;
        const char *text =
            vocabulary_text(&pieces->tokenizer->vocabulary, (int64_t)i, &length);
        done = is_utf8(text, length);
        if (!done || length > PIECE_MERGES_MAX_BYTES) {
            done =
                error_set(err, ERROR_DATA,
                          "tokenizer.ggml.tokens: token %zu %s: it cannot be written "
                          "to tokenizer.json",
                          i, done ? "is longer than 4096 bytes" : "is not UTF-8");
            break;
        }
        if (pieces->is_run[i]) {
            make_run(&run, length);
            text = run.text;
            length = run.length;
        }
        done = vocabulary_add(&pieces->vocabulary, (int64_t)i, text, length,
                              VOCABULARY_MODEL, err);
    }
    str_deinit(&run);
    return done;
}

static void close_pieces(struct pieces *pieces)
{
    tokenizer_destroy(pieces->tokenizer);
    vocabulary_deinit(&pieces->vocabulary);
    mem_free(pieces->is_run);
}

/* Reading checks that texts, scores and types are of one length. */
static bool open_pieces(struct pieces *pieces, const struct gguf *gguf,
                        struct error *err)
{
    *pieces = (struct pieces){.tokenizer = tokenizer_read_gguf(gguf, err)};
    if (pieces->tokenizer == NULL) {
        return false;
    }
    pieces->n = pieces->tokenizer->vocabulary.n_ids;
    pieces->is_run = mem_alloc_array(pieces->n, sizeof(bool));
    size_t n_types;
    bool done = true;
    if (gguf_has(gguf, "tokenizer.ggml.token_type")) {
        pieces->types = gguf_integers(gguf, "tokenizer.ggml.token_type", &n_types, err);
        done = pieces->types != NULL;
    }
    if (done) {
        find_runs(pieces);
        done = fill_vocabulary(pieces, err);
    }
    if (!done) {
        close_pieces(pieces);
    }
    return done;
}

/* Ranks of all pieces: that of the score, and for pieces whose score says nothing, that
 * of the last one before them. Freed with mem_free. */
static int32_t *make_ranks(const struct pieces *pieces)
{
    int32_t *ranks = mem_alloc_array(pieces->n, sizeof(*ranks));
    int32_t rank = -1; /* before all scores */
    for (size_t i = 0; i < pieces->n; i++) {
        if (type_of(pieces, i) == PIECE_NORMAL) {
            rank = pieces->tokenizer->bpe.rank_of_id[i];
        }
        ranks[i] = rank;
    }
    return ranks;
}

/* ---- tokenizer.json ---- */

static void write_added(const struct pieces *pieces, struct json_write *json)
{
    json_write_begin(json, "added_tokens", '[');
    for (size_t i = 0; i < pieces->n; i++) {
        if (!is_added(pieces, i)) {
            continue;
        }
        size_t length;
        const char *text = vocabulary_text(&pieces->vocabulary, (int64_t)i, &length);
        json_write_begin(json, NULL, '{');
        json_write_integer(json, "id", (int64_t)i);
        json_write_text(json, "content", text, length);
        json_write_bool(json, "single_word", false);
        json_write_bool(json, "lstrip", false);
        json_write_bool(json, "rstrip", false);
        json_write_bool(json, "normalized", false);
        json_write_bool(json, "special", type_of(pieces, i) != PIECE_USER_DEFINED);
        json_write_end(json);
    }
    json_write_end(json);
}

/* A piece_merges_fn. */
static void write_merge(void *context, const char *left, size_t left_length,
                        const char *right, size_t right_length)
{
    struct json_write *json = context;
    json_write_begin(json, NULL, '[');
    json_write_text(json, NULL, left, left_length);
    json_write_text(json, NULL, right, right_length);
    json_write_end(json);
}

/* Vocabulary and merges. */
static void write_model(const struct pieces *pieces, struct json_write *json)
{
    const int32_t unknown = pieces->tokenizer->bpe.unknown;
    json_write_begin(json, "model", '{');
    json_write_string(json, "type", "BPE");
    json_write_null(json, "dropout");
    if (unknown >= 0) {
        json_write_string(json, "unk_token",
                          tokenizer_token_text(pieces->tokenizer, unknown));
    } else {
        json_write_null(json, "unk_token");
    }
    json_write_null(json, "continuing_subword_prefix");
    json_write_null(json, "end_of_word_suffix");
    json_write_bool(json, "fuse_unk", true);
    json_write_bool(json, "byte_fallback", true);
    json_write_bool(json, "ignore_merges", false);
    json_write_begin(json, "vocab", '{');
    for (size_t i = 0; i < pieces->n; i++) {
        size_t length;
        const char *text = vocabulary_text(&pieces->vocabulary, (int64_t)i, &length);
        json_write_key(json, text, length);
        json_write_integer(json, NULL, (int64_t)i);
    }
    json_write_end(json);
    int32_t *ranks = make_ranks(pieces);
    json_write_begin(json, "merges", '[');
    piece_merges_list(&pieces->vocabulary, ranks, write_merge, json);
    json_write_end(json);
    mem_free(ranks);
    json_write_end(json);
}

bool tokenizer_write_json(const struct gguf *gguf, struct str *out, struct error *err)
{
    struct pieces pieces;
    if (!open_pieces(&pieces, gguf, err)) {
        return false;
    }
    struct json_write json = {.out = out};
    json_write_begin(&json, NULL, '{');
    json_write_string(&json, "version", "1.0");
    json_write_null(&json, "truncation");
    json_write_null(&json, "padding");
    write_added(&pieces, &json);
    tokenizer_write_rules_before(pieces.tokenizer, &json);
    tokenizer_write_rules_template(pieces.tokenizer, &json);
    tokenizer_write_rules_decoder(pieces.tokenizer, &json);
    write_model(&pieces, &json);
    json_write_end(&json);
    close_pieces(&pieces);
    return true;
}

/* ---- the names of special tokens ---- */

/* "bos_token": "<bos>", for those that there are. */
static void write_names(const struct tokenizer *tokenizer, struct json_write *json)
{
    const struct {
        const char *key;
        int32_t id;
    } names[] = {{"bos_token", tokenizer->bos},
                 {"eos_token", tokenizer->eos},
                 {"pad_token", tokenizer->pad},
                 {"unk_token", tokenizer->bpe.unknown}};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *text = tokenizer_token_text(tokenizer, names[i].id);
        if (text != NULL) {
            json_write_string(json, names[i].key, text);
        }
    }
}

/* The class of Gemma's own files asks for a <mask>; the general one takes any
 * vocabulary. The length says "no limit" in the words of transformers. */
bool tokenizer_write_config(const struct gguf *gguf, struct str *out, struct error *err)
{
    const char *template = NULL;
    if (gguf_has(gguf, "tokenizer.chat_template")) {
        template = gguf_string(gguf, "tokenizer.chat_template", err);
        if (template == NULL) {
            return false;
        }
        if (!is_utf8(template, strlen(template))) {
            return error_set(err, ERROR_DATA, "tokenizer.chat_template: not UTF-8");
        }
    }
    struct pieces pieces;
    if (!open_pieces(&pieces, gguf, err)) {
        return false;
    }
    const struct tokenizer *tokenizer = pieces.tokenizer;
    const bool is_gemma = !tokenizer_write_rules_has_prefix(tokenizer) &&
                          tokenizer_id_of(tokenizer, "<mask>") >= 0;
    struct json_write json = {.out = out};
    json_write_begin(&json, NULL, '{');
    json_write_bool(&json, "add_bos_token", tokenizer->n_prefix > 0);
    json_write_bool(&json, "add_eos_token", tokenizer->n_suffix > 0);
    write_names(tokenizer, &json);
    if (template != NULL) {
        json_write_string(&json, "chat_template", template);
    }
    json_write_bool(&json, "clean_up_tokenization_spaces", false);
    json_write_raw(&json, "model_max_length", "1000000000000000019884624838656");
    json_write_string(&json, "tokenizer_class",
                      is_gemma ? "GemmaTokenizer" : "PreTrainedTokenizerFast");
    json_write_end(&json);
    str_add_char(out, '\n');
    close_pieces(&pieces);
    return true;
}

/* The same names once more, for older versions of transformers. */
static bool make_names(const struct gguf *gguf, struct str *out, struct error *err)
{
    struct tokenizer *tokenizer = tokenizer_read_gguf(gguf, err);
    if (tokenizer == NULL) {
        return false;
    }
    struct json_write json = {.out = out};
    json_write_begin(&json, NULL, '{');
    write_names(tokenizer, &json);
    json_write_end(&json);
    str_add_char(out, '\n');
    tokenizer_destroy(tokenizer);
    return true;
}

bool tokenizer_write_folder(const struct gguf *gguf, const char *folder,
                            struct error *err)
{
    static const struct {
        const char *name;
        bool (*make)(const struct gguf *gguf, struct str *out, struct error *err);
    } files[] = {{"tokenizer.json", tokenizer_write_json},
                 {"tokenizer_config.json", tokenizer_write_config},
                 {"special_tokens_map.json", make_names}};
    bool done = true;
    for (size_t i = 0; i < ARRAY_LENGTH(files) && done; i++) {
        struct str text = {0};
        char *path = file_join(folder, files[i].name);
        done = files[i].make(gguf, &text, err) &&
               file_write_atomic(path, text.text, text.length, err);
        mem_free(path);
        str_deinit(&text);
    }
    return done;
}

bool tokenizer_write_from(const char *gguf_path, const char *folder, struct error *err)
{
    struct gguf *gguf = gguf_open(gguf_path, err);
    if (gguf == NULL) {
        return false;
    }
    const bool done =
        tokenizer_write_folder(gguf, folder, err) || error_wrap(err, "%s", gguf_path);
    gguf_close(gguf);
    return done;
}
