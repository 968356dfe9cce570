/*
 * tokenize - time to load the real vocabulary, and MB/s of encoding and decoding.
 *
 * Usage: tokenize [MODEL [TEXT-FILE]]. MODEL is a .gguf file or a folder with
 * tokenizer.json (default models/gemma-3-270m.gguf, see tools/get-gemma3-270m); the text
 * should be English and a few MB long (default: the training rows of the demo). Each
 * figure stands beside its target.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "text/tokenizer.h"

enum { N_RUNS = 5, LEAST_BYTES = 4 << 20 };

static struct tokenizer *load(const char *model, struct error *err)
{
    if (!str_ends_with(model, ".gguf")) {
        return tokenizer_read_folder(model, err);
    }
    struct gguf *gguf = gguf_open(model, err);
    if (gguf == NULL) {
        return NULL;
    }
    struct tokenizer *tokenizer = tokenizer_read_gguf(gguf, err);
    gguf_close(gguf);
    return tokenizer;
}

/* The best of N_RUNS, in MB/s of the text. */
static void measure(const struct tokenizer *tokenizer, const struct str *text)
{
    double encode_ms = 0;
    double decode_ms = 0;
    size_t n_tokens = 0;
    for (int i = 0; i < N_RUNS; i++) {
        struct token_list list = {0};
        struct str back = {0};
        int64_t start = clock_now_ns();
        tokenizer_encode(tokenizer, text->text, text->length, false, &list);
        const double encode = clock_since_ms(start);
        start = clock_now_ns();
        tokenizer_decode(tokenizer, list.ids, list.n, false, &back);
        const double decode = clock_since_ms(start);
        encode_ms = i == 0 || encode < encode_ms ? encode : encode_ms;
        decode_ms = i == 0 || decode < decode_ms ? decode : decode_ms;
        n_tokens = list.n;
        token_list_deinit(&list);
        str_deinit(&back);
    }
    const double megabytes = (double)text->length / 1e6;
    printf("%-28s %8.1f MB/s  (target 10)\n", "encode, one core",
           megabytes / encode_ms * 1e3);
    printf("%-28s %8.1f MB/s\n", "decode, one core", megabytes / decode_ms * 1e3);
    printf("%-28s %8.2f\n", "bytes a token", (double)text->length / (double)n_tokens);
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : "models/gemma-3-270m.gguf";
    const char *path = argc > 2 ? argv[2] : "examples/demo/train.jsonl";
    struct error err = {.message = ""};
    if (!file_exists(model) || !file_exists(path)) {
        printf("skipped: needs %s and %s\n", model, path);
        return 0;
    }
    const int64_t start = clock_now_ns();
    struct tokenizer *tokenizer = load(model, &err);
    if (tokenizer == NULL) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%-28s %8.0f ms    (target 1000)\n", "load the vocabulary",
           clock_since_ms(start));
    size_t length;
    char *file = file_read(path, TOKENIZER_MAX_BYTES, &length, &err);
    if (file == NULL || length == 0) {
        fprintf(stderr, "%s: %s\n", path, file == NULL ? err.message : "empty");
        tokenizer_destroy(tokenizer);
        return 1;
    }
    struct str text = {0};
    while (text.length < LEAST_BYTES) {
        str_add_bytes(&text, file, length);
    }
    measure(tokenizer, &text);
    str_deinit(&text);
    mem_free(file);
    tokenizer_destroy(tokenizer);
    return 0;
}
