/*
 * chat_template - what a jinja template writes, found without running it.
 *
 * The text is cut into what lies outside of tags and the string literals inside them.
 * Control marks in any of these, and literals that read like sentences, are what makes a
 * rendered conversation differ; keys, roles and macros do not matter.
 */
#include "text/chat_template.h"

#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "text/json_scan.h"

enum {
    MAX_TEMPLATE_BYTES = 1 << 20,
    MAX_MARK_BYTES = 40,
    MAX_LIST_BYTES = 300, /* a list of differences that is longer ends with "..." */
};

/* --- finding the template --------------------------------------------------------- */

/* The value is the template itself, or a list of {name, template}, where the one called
 * default is used, or the only one. */
static const char *template_of_value(const json_t *value)
{
    if (json_is_string(value)) {
        return json_string_value(value);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        const json_t *name = json_object_get(entry, "name");
        const bool is_default =
            json_is_string(name) && strcmp(json_string_value(name), "default") == 0;
        if (is_default || json_array_size(value) == 1) {
            return json_string_value(json_object_get(entry, "template"));
        }
    }
    return NULL;
}

/* tokenizer_config.json holds integers that no tree parser takes, so it is walked and
 * only the one value is read. */
bool chat_template_of_json(const char *text, size_t length, const char *where,
                           struct str *out, struct error *err)
{
    struct json_scan scan = json_scan_view(text, length, where);
    struct str key = {0};
    bool has_more = true;
    bool is_done = json_scan_open(&scan, '{', err);
    while (is_done && (is_done = json_scan_next(&scan, '}', &has_more, err)) &&
           has_more) {
        struct json_scan_extent extent;
        is_done =
            json_scan_key(&scan, &key, err) && json_scan_skip(&scan, &extent, err);
        if (is_done && strcmp(str_text(&key), "chat_template") == 0) {
            json_t *value = json_loadb(text + extent.from, extent.to - extent.from,
                                       JSON_DECODE_ANY, NULL);
            const char *template = template_of_value(value);
            str_add(out, template == NULL ? "" : template);
            json_decref(value);
        }
    }
    str_deinit(&key);
    return is_done;
}

/* One file of the folder, if it is there. */
static bool read_file(const char *folder, const char *name, struct str *out,
                      struct error *err)
{
    char *path = file_join(folder, name);
    bool is_done = true;
    if (file_exists(path)) {
        size_t length = 0;
        char *text = file_read(path, MAX_TEMPLATE_BYTES, &length, err);
        is_done = text != NULL;
        if (is_done && str_ends_with(name, ".jinja")) {
            str_add_bytes(out, text, length);
        } else if (is_done) {
            is_done = chat_template_of_json(text, length, path, out, err);
        }
        mem_free(text);
    }
    mem_free(path);
    return is_done;
}

/* The converters of llama.cpp keep the template as one text. */
static bool read_gguf(const char *path, struct str *out, struct error *err)
{
    struct gguf *gguf = gguf_open(path, err);
    if (gguf == NULL) {
        return false;
    }
    bool is_done = true;
    if (gguf_has(gguf, "tokenizer.chat_template")) {
        const char *text = gguf_string(gguf, "tokenizer.chat_template", err);
        is_done = text != NULL;
        str_add(out, is_done ? text : "");
    }
    gguf_close(gguf);
    return is_done;
}

/* In the order in which transformers looks: a file of its own, as it writes it today,
 * goes before the older places. An empty one is passed over. */
bool chat_template_read(const char *path, struct str *out, struct error *err)
{
    static const char *const names[] = {"chat_template.jinja", "chat_template.json",
                                        "tokenizer_config.json"};
    if (!file_is_folder(path)) {
        return read_gguf(path, out, err);
    }
    const size_t before = out->length;
    bool is_done = true;
    for (size_t i = 0; i < ARRAY_LENGTH(names) && is_done && out->length == before;
         i++) {
        is_done = read_file(path, names[i], out, err);
    }
    return is_done;
}

/* --- its literals ----------------------------------------------------------------- */

/* A walk over the pieces of text that a template can write. */
struct walk {
    const char *at;
    const char *close; /* end of the tag we are in: "}}" or "%}"; NULL = outside */
    const char *piece; /* the piece found last */
    size_t length;
    bool
        is_argument; /* it stands behind a parenthesis or bracket: not written as such */
};

/*
 * The next string literal of the tag, or its end (false). `before` is the last character
 * that was no space: a literal behind an opening parenthesis or bracket, or a comma, is
 * the argument of something (a message of raise_exception, a key) and not written as it
 * stands. A backslash keeps the character behind it, which may be the quote.
 */
static bool next_literal(struct walk *walk)
{
    char before = '\0';
    while (*walk->at != '\0' && strncmp(walk->at, walk->close, 2) != 0) {
        const char c = *walk->at++;
        if (c != '\'' && c != '"') {
            before = c == ' ' || c == '\n' ? before : c;
            continue;
        }
        walk->piece = walk->at;
        walk->is_argument = before == '(' || before == '[' || before == ',';
        while (*walk->at != '\0' && *walk->at != c) {
            walk->at += *walk->at == '\\' && walk->at[1] != '\0' ? 2 : 1;
        }
        walk->length = (size_t)(walk->at - walk->piece);
        walk->at += *walk->at != '\0';
        return true;
    }
    walk->at += *walk->at == '\0' ? 0 : 2;
    walk->close = NULL;
    return false;
}

/* The next piece; comments are passed over. Unlike jinja it does not mind tags that
 * never end: what comes then is looked at as far as it goes. */
static bool next_piece(struct walk *walk)
{
    while (true) {
        if (walk->close != NULL) {
            if (next_literal(walk)) {
                return true;
            }
            continue;
        }
        if (*walk->at == '\0') {
            return false;
        }
        if (strncmp(walk->at, "{#", 2) == 0) {
            const char *end = strstr(walk->at, "#}");
            walk->at = end == NULL ? walk->at + strlen(walk->at) : end + 2;
            continue;
        }
        if (strncmp(walk->at, "{{", 2) == 0 || strncmp(walk->at, "{%", 2) == 0) {
            walk->close = walk->at[1] == '{' ? "}}" : "%}";
            walk->at += 2;
            continue;
        }
        walk->piece = walk->at;
        walk->is_argument = false;
        do {
            walk->at++;
        } while (*walk->at != '\0' &&
                 !(walk->at[0] == '{' && strchr("{%#", walk->at[1]) != NULL));
        walk->length = (size_t)(walk->at - walk->piece);
        return true;
    }
}

/* --- comparing -------------------------------------------------------------------- */

/* The first two are the format's own; the others stand for tools and pictures. */
static const char *const gemma3_marks[] = {
    "<start_of_turn>",    "<end_of_turn>",      "<bos>", "<start_of_image>",
    "<image_soft_token>", "<audio_soft_token>", NULL};
static const char *const gemma4_marks[] = {
    "<|turn>",    "<turn|>",      "<bos>",
    "<|channel>", "<channel|>",   "<|think|>",
    "<|tool>",    "<tool|>",      "<|tool_call>",
    "<|image|>",  "<tool_call|>", "<|tool_response>",
    "<|audio|>",  "<|video|>",    "<tool_response|>",
    "<|\"|>",     "<|image>",     "<image|>",
    "<|audio>",   "<audio|>",     NULL};

/* The format's list, which ends with NULL. */
static const char *const *marks_of(enum chat_format format)
{
    switch (format) {
    case CHAT_GEMMA3:
        return gemma3_marks;
    case CHAT_GEMMA4:
        return gemma4_marks;
    }
    UNREACHABLE();
}

/* By the opening mark alone; whether the rest fits is the question of
 * chat_template_is_known. */
bool chat_template_format(const char *text, enum chat_format *format)
{
    for (int i = CHAT_GEMMA3; i <= CHAT_GEMMA4; i++) {
        if (strstr(text, marks_of((enum chat_format)i)[0]) != NULL) {
            *format = (enum chat_format)i;
            return true;
        }
    }
    return false;
}

/* Length of the control mark that text[0 .. length) begins with, or 0: "<", letters,
 * bars, slashes, quotes or underlines, ">". */
static size_t mark_length(const char *text, size_t length)
{
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_|/\"";
    if (length < 3 || text[0] != '<') {
        return 0;
    }
    size_t n = 1;
    while (n < length && n < MAX_MARK_BYTES && text[n] != '\0' &&
           strchr(inside, text[n]) != NULL) {
        n++;
    }
    return n > 1 && n < length && text[n] == '>' ? n + 1 : 0;
}

/* Begins another point of the list, unless the same is in it already. A template of
 * another family differs in everything; the first points tell as much as all. */
static void add_point(struct str *difference, const char *what, const char *text,
                      size_t length)
{
    struct str point = {0};
    str_add(&point, what);
    str_add_bytes(&point, text, length);
    if (difference->length > MAX_LIST_BYTES) {
        str_add(difference, str_ends_with(difference->text, "...") ? "" : "; ...");
    } else if (strstr(str_text(difference), point.text) == NULL) {
        str_printf(difference, "%s%s", difference->length > 0 ? "; " : "", point.text);
    }
    str_deinit(&point);
}

/* Marks that the format does not have. */
static void compare_marks(const struct walk *piece, const char *const *known,
                          struct str *difference)
{
    for (size_t i = 0; i < piece->length; i++) {
        const size_t n = mark_length(piece->piece + i, piece->length - i);
        bool is_known = n == 0;
        for (size_t k = 0; known[k] != NULL && !is_known; k++) {
            is_known =
                strlen(known[k]) == n && memcmp(piece->piece + i, known[k], n) == 0;
        }
        if (!is_known) {
            add_point(difference, "has ", piece->piece + i, n);
        }
    }
}

/*
 * A piece of three words or more is a text that the template adds by itself, like a
 * system message that nobody wrote. Shorter ones are roles, keys and parts of tool
 * declarations, which every template has plenty of. A word is letters between spaces or
 * punctuation: n_letters is 0 between words.
 */
static void compare_text(const struct walk *piece, struct str *difference)
{
    int n_words = 0;
    size_t n_letters = 0;
    for (size_t i = 0; i < piece->length && !piece->is_argument; i++) {
        const char c = piece->piece[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        n_words += is_letter && n_letters == 0;
        n_letters = is_letter || c == '\'' ? n_letters + 1 : 0;
        /* Words stand apart by spaces; names_like_this and a:b are one. */
        if (!is_letter && strchr(" ,.\n", c) == NULL) {
            n_letters = 1;
        }
    }
    if (n_words >= 3) {
        struct str text = {0};
        size_t n = piece->length;
        if (n > MAX_MARK_BYTES) {
            n = MAX_MARK_BYTES;
            while (n > 0 && ((unsigned char)piece->piece[n] & 0xC0) == 0x80) {
                n--; /* not in the middle of a character */
            }
        }
        str_add_char(&text, '"');
        for (size_t i = 0; i < n; i++) {
            const unsigned char c = (unsigned char)piece->piece[i];
            str_add_char(&text, c < 0x20 || c == 0x7f ? ' ' : piece->piece[i]);
        }
        str_add(&text, n < piece->length ? "...\"" : "\"");
        add_point(difference, "adds the text ", text.text, text.length);
        str_deinit(&text);
    }
}

/* Whether the piece is two newlines, written out or as jinja escapes them. */
static bool is_blank_line(const struct walk *piece)
{
    return (piece->length == 2 && memcmp(piece->piece, "\n\n", 2) == 0) ||
           (piece->length == 4 && memcmp(piece->piece, "\\n\\n", 4) == 0);
}

/* Gemma 3 puts a system text and a blank line in front of the first message. Older
 * templates with the same marks refuse one, or join the two in another way. */
static void compare_system(const char *text, bool has_blank_line,
                           struct str *difference)
{
    if (strstr(text, "ystem role not supported") != NULL) {
        add_point(difference, "refuses system messages", "", 0);
    } else if (!has_blank_line) {
        add_point(difference, "puts no blank line behind a system message", "", 0);
    }
}

/* Ways of treating a conversation that show as a word somewhere in the template. */
static void compare_manners(const char *text, enum chat_format format,
                            struct str *difference)
{
    if (strstr(text, "trim") == NULL) {
        add_point(difference, "keeps white space around messages", "", 0);
    }
    if (format == CHAT_GEMMA4 && strstr(text, "<channel|>") == NULL) {
        add_point(difference, "keeps the thoughts of model turns", "", 0);
    }
    if (strstr(text, "<|channel>thought\\n<channel|>") != NULL ||
        strstr(text, "<|channel>thought\n<channel|>") != NULL) {
        add_point(difference, "opens answers with an empty thought", "", 0);
    }
}

/* What is missing, what is too much, what is done differently, in this order: the first
 * says most, and the list is cut at some length. */
bool chat_template_is_known(const char *text, enum chat_format format,
                            struct str *difference)
{
    const size_t before = difference->length;
    const char *const *known = marks_of(format);
    for (int i = 0; i < 2; i++) {
        if (strstr(text, known[i]) == NULL) {
            add_point(difference, "has no ", known[i], strlen(known[i]));
        }
    }
    bool has_blank_line = false;
    for (struct walk walk = {.at = text}; next_piece(&walk);) {
        has_blank_line |= is_blank_line(&walk);
        compare_marks(&walk, known, difference);
        compare_text(&walk, difference);
    }
    if (format == CHAT_GEMMA3) {
        compare_system(text, has_blank_line, difference);
    }
    compare_manners(text, format, difference);
    return difference->length == before;
}
