/*
 * piece_build - small "llama" vocabularies in GGUF files, for tests.
 *
 *     struct gguf_build build = {0};
 *     piece_build_add(&build, piece_build_usual, PIECE_BUILD_USUAL, PIECE_BUILD_USUAL);
 *     piece_build_flag(&build, "tokenizer.ggml.add_space_prefix", false);
 */
#ifndef SUPPORT_PIECE_BUILD_H
#define SUPPORT_PIECE_BUILD_H

#include "support/gguf_build.h"

/* tokenizer.ggml.token_type */
enum {
    PIECE_BUILD_NORMAL = 1,
    PIECE_BUILD_UNKNOWN = 2,
    PIECE_BUILD_CONTROL = 3,
    PIECE_BUILD_USER = 4,
    PIECE_BUILD_BYTE = 6
};

struct piece_build {
    const char *text;
    float score;
    uint32_t type;
};

/* Control and byte pieces, letters a and b with some merges, two real spaces and the line
 * end as user-defined ones. <s> is 1, </s> is 2. */
enum { PIECE_BUILD_USUAL = 15 };
extern const struct piece_build piece_build_usual[PIECE_BUILD_USUAL];

/* The model "llama" with texts, types and the first n_scores scores. */
void piece_build_add(struct gguf_build *build, const struct piece_build *pieces,
                     size_t n, size_t n_scores);
void piece_build_flag(struct gguf_build *build, const char *key, bool flag);

#endif
