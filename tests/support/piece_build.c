/*
 * piece_build - small "llama" vocabularies in GGUF files, for tests.
 */
#include "support/piece_build.h"

#include <string.h>

#define SPACE "\xe2\x96\x81"

enum { KEY_I32 = 5, KEY_F32 = 6, KEY_BOOL = 7, KEY_STRING = 8, KEY_ARRAY = 9 };

const struct piece_build piece_build_usual[PIECE_BUILD_USUAL] = {
    {"<unk>", 0, PIECE_BUILD_UNKNOWN}, {"<s>", 0, PIECE_BUILD_CONTROL},
    {"</s>", 0, PIECE_BUILD_CONTROL},  {"<0xC3>", 0, PIECE_BUILD_BYTE},
    {"<0xA9>", 0, PIECE_BUILD_BYTE},   {SPACE, -1, PIECE_BUILD_NORMAL},
    {"a", -2, PIECE_BUILD_NORMAL},     {"b", -3, PIECE_BUILD_NORMAL},
    {"ab", -5, PIECE_BUILD_NORMAL},    {"ba", -4, PIECE_BUILD_NORMAL},
    {"  ", -9, PIECE_BUILD_USER},      {SPACE "a", -6, PIECE_BUILD_NORMAL},
    {"aba", -7, PIECE_BUILD_NORMAL},   {SPACE SPACE, 0, PIECE_BUILD_NORMAL},
    {"\n", -8, PIECE_BUILD_USER},
};

static void add_array(struct gguf_build *build, const char *key, uint32_t type,
                      size_t n)
{
    gguf_build_key(build, key, KEY_ARRAY);
    gguf_build_u32(&build->keys, type);
    gguf_build_u64(&build->keys, n);
}

void piece_build_add(struct gguf_build *build, const struct piece_build *pieces,
                     size_t n, size_t n_scores)
{
    gguf_build_string(build, "tokenizer.ggml.model", "llama");
    add_array(build, "tokenizer.ggml.tokens", KEY_STRING, n);
    for (size_t i = 0; i < n; i++) {
        gguf_build_text(&build->keys, pieces[i].text);
    }
    add_array(build, "tokenizer.ggml.scores", KEY_F32, n_scores);
    for (size_t i = 0; i < n_scores; i++) {
        uint32_t bits;
        memcpy(&bits, &pieces[i].score, sizeof(bits));
        gguf_build_u32(&build->keys, bits);
    }
    add_array(build, "tokenizer.ggml.token_type", KEY_I32, n);
    for (size_t i = 0; i < n; i++) {
        gguf_build_u32(&build->keys, pieces[i].type);
    }
}

void piece_build_flag(struct gguf_build *build, const char *key, bool flag)
{
    gguf_build_key(build, key, KEY_BOOL);
    str_add_char(&build->keys, flag ? 1 : 0);
}
