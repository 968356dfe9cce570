/*
 * tokenizer_build - strings of JSON, put together at the end.
 */
#include "support/tokenizer_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer.h"

static void add_quoted(struct str *json, const char *text)
{
    str_add_char(json, '"');
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            str_printf(json, "\\%c", *at);
        } else if ((unsigned char)*at < 0x20) {
            str_printf(json, "\\u%04x", (unsigned)*at);
        } else {
            str_add_char(json, *at);
        }
    }
    str_add_char(json, '"');
}

int32_t tokenizer_build_token(struct tokenizer_build *build, const char *text)
{
    struct error err;
    const int32_t known = vocabulary_find(&build->tokens, text, strlen(text));
    if (known >= 0) {
        return known;
    }
    const int32_t id = build->n_ids++;
    ASSERT(
        vocabulary_add(&build->tokens, id, text, strlen(text), VOCABULARY_MODEL, &err));
    if (id > 0) {
        str_add(&build->vocab, ", ");
    }
    add_quoted(&build->vocab, text);
    str_printf(&build->vocab, ": %d", id);
    return id;
}

void tokenizer_build_begin(struct tokenizer_build *build)
{
    static const char *const specials[] = {"<pad>", "<eos>", "<bos>", "<unk>"};
    for (size_t i = 0; i < ARRAY_LENGTH(specials); i++) {
        tokenizer_build_added(build, specials[i], true);
    }
    for (int i = 0; i < 256; i++) {
        char text[8];
        snprintf(text, sizeof(text), "<0x%02X>", (unsigned)i);
        tokenizer_build_token(build, text);
    }
}

void tokenizer_build_merge(struct tokenizer_build *build, const char *left,
                           const char *right)
{
    struct str joined = {0};
    str_printf(&joined, "%s%s", left, right);
    tokenizer_build_token(build, left);
    tokenizer_build_token(build, right);
    tokenizer_build_token(build, joined.text);
    str_deinit(&joined);
    if (build->n_merges++ > 0) {
        str_add(&build->merges, ", ");
    }
    str_add_char(&build->merges, '[');
    add_quoted(&build->merges, left);
    str_add(&build->merges, ", ");
    add_quoted(&build->merges, right);
    str_add_char(&build->merges, ']');
}

void tokenizer_build_word(struct tokenizer_build *build, const char *word)
{
    struct str left = {0};
    const char *at = word;
    while (*at != '\0') {
        const size_t n = (size_t)str_utf8_length(at, strlen(at));
        char right[5] = "";
        memcpy(right, at, n);
        if (left.length == 0) {
            tokenizer_build_token(build, right);
        } else {
            struct str joined = {0};
            str_printf(&joined, "%s%s", left.text, right);
            if (vocabulary_find(&build->tokens, joined.text, joined.length) < 0) {
                tokenizer_build_merge(build, left.text, right);
            }
            str_deinit(&joined);
        }
        str_add(&left, right);
        at += n;
    }
    str_deinit(&left);
}

int32_t tokenizer_build_added(struct tokenizer_build *build, const char *text,
                              bool is_special)
{
    const int32_t id = tokenizer_build_token(build, text);
    str_printf(&build->added,
               "%s{\"id\": %d, \"content\": ", build->added.length > 0 ? ",\n" : "",
               id);
    add_quoted(&build->added, text);
    str_printf(&build->added,
               ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
               "\"normalized\": false, \"special\": %s}",
               is_special ? "true" : "false");
    return id;
}

void tokenizer_build_json(const struct tokenizer_build *build, struct str *json)
{
    str_printf(json,
               "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n");
    str_printf(json, "\"added_tokens\": [%s],\n", str_text(&build->added));
    str_add(
        json,
        "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
        "\"content\": \"\xe2\x96\x81\"},\n"
        "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, "
        "\"behavior\": \"MergedWithPrevious\", \"invert\": false},\n"
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [\n"
        "  {\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}},\n"
        "  {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [],\n"
        "  \"special_tokens\": {\"<bos>\": {\"id\": \"<bos>\", \"ids\": [2], "
        "\"tokens\": [\"<bos>\"]}}},\n"
        "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [\n"
        "  {\"type\": \"Replace\", \"pattern\": {\"String\": \"\xe2\x96\x81\"}, "
        "\"content\": \" \"},\n"
        "  {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]},\n");
    str_printf(
        json,
        "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": "
        "\"<unk>\", \"continuing_subword_prefix\": null, "
        "\"end_of_word_suffix\": null, \"fuse_unk\": true, \"byte_fallback\": "
        "true, \"ignore_merges\": false,\n\"vocab\": {%s},\n\"merges\": [%s]}}\n",
        str_text(&build->vocab), str_text(&build->merges));
}

struct tokenizer *tokenizer_build_finish(struct tokenizer_build *build,
                                         const char *config)
{
    struct error err = {.message = ""};
    struct str json = {0};
    tokenizer_build_json(build, &json);
    struct tokenizer *tokenizer =
        tokenizer_parse(json.text, json.length, config,
                        config == NULL ? 0 : strlen(config), "small", &err);
    if (tokenizer == NULL) {
        fprintf(stderr, "tokenizer_build: %s\n", err.message);
        abort();
    }
    str_deinit(&json);
    str_deinit(&build->vocab);
    str_deinit(&build->merges);
    str_deinit(&build->added);
    vocabulary_deinit(&build->tokens);
    *build = (struct tokenizer_build){0};
    return tokenizer;
}

struct tokenizer *tokenizer_build_small(void)
{
    static const char *const words[] = {
        "\xe2\x96\x81the",
        "\xe2\x96\x81is",
        "\xe2\x96\x81of",
        "What",
        "Response",
        "Instruction",
        "Context",
        "ing",
        "\xe2\x96\x81"
        "a",
        "\xe2\x96\x81Paris",
        "er",
        "\xe2\x96\x81\xe2\x96\x81",
        "\xc3\xa9t",
        "\xe2\x96\x81"
        "4",
    };
    struct tokenizer_build build = {0};
    tokenizer_build_begin(&build);
    tokenizer_build_added(&build, "\n", false);
    tokenizer_build_added(&build, "\n\n", false);
    tokenizer_build_added(&build, "<turn>", true);
    for (char c = '!'; c <= '~'; c++) {
        const char text[2] = {c, '\0'};
        tokenizer_build_token(&build, text);
    }
    tokenizer_build_token(&build, "\xe2\x96\x81");
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        tokenizer_build_word(&build, words[i]);
    }
    return tokenizer_build_finish(&build, NULL);
}
