/*
 * fuzz_tokenizer - any bytes as a tokenizer.json, which then encodes; and the same
 * bytes as text for a fixed tokenizer, which must give them back (G9).
 */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static const char space[] = "\xe2\x96\x81";

/* All bytes, some letters, some merges; made once. */
static struct tokenizer *fixed_tokenizer(void)
{
    struct error err;
    struct str json = {0};
    str_add(&json, "{\"added_tokens\": [{\"id\": 300, \"content\": \"<x>\"}], "
                   "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": "
                   "\" \"}, \"content\": \"\xe2\x96\x81\"}, \"decoder\": {\"type\": "
                   "\"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "
                   "{\"String\": \"\xe2\x96\x81\"}, \"content\": \" \"}, {\"type\": "
                   "\"ByteFallback\"}, {\"type\": \"Fuse\"}]}, \"model\": {\"type\": "
                   "\"BPE\", \"byte_fallback\": true, \"vocab\": {");
    for (int i = 0; i < 256; i++) {
        str_printf(&json, "\"<0x%02X>\": %d, ", (unsigned)i, i);
    }
    str_add(&json, "\"a\": 256, \"b\": 257, \"\xe2\x96\x81\": 258, \"ab\": 259, "
                   "\"\xe2\x96\x81\x61\": 260, \"bab\": 261, \"<\": 262}, \"merges\": "
                   "[\"a b\", \"\xe2\x96\x81 a\", \"b ab\"]}}");
    struct tokenizer *tokenizer =
        tokenizer_parse(json.text, json.length, NULL, 0, "fixed", &err);
    ASSERT(tokenizer != NULL);
    str_deinit(&json);
    return tokenizer;
}

static void encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                   struct str *back)
{
    struct token_list list = {0};
    tokenizer_encode(tokenizer, text, length, true, &list);
    for (size_t i = 0; i < list.n; i++) {
        ASSERT(list.ids[i] >= 0 && list.ids[i] < tokenizer_n_tokens(tokenizer));
        ASSERT(list.starts[i] <= length);
        ASSERT(i == 0 || list.starts[i] >= list.starts[i - 1]);
    }
    tokenizer_decode(tokenizer, list.ids, list.n, false, back);
    token_list_deinit(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct tokenizer *fixed;
    const char *text = (const char *)bytes;
    struct error err = {.message = ""};
    struct str back = {0};
    if (fixed == NULL) {
        fixed = fixed_tokenizer();
    }
    encode(fixed, text, length, &back);
    if (memmem(text, length, space, 3) == NULL) {
        ASSERT(back.length == length);
        ASSERT(length == 0 || memcmp(back.text, text, length) == 0);
    }
    struct tokenizer *tokenizer = tokenizer_parse(text, length, NULL, 0, "input", &err);
    if (tokenizer == NULL) {
        ASSERT(err.message[0] != '\0');
    } else {
        encode(tokenizer, text, length < 4096 ? length : 4096, &back);
        tokenizer_destroy(tokenizer);
    }
    /* The part behind a NUL as the config of the rest. */
    const char *config = memchr(text, 0, length);
    if (config != NULL) {
        const size_t from = (size_t)(config - text) + 1;
        tokenizer =
            tokenizer_parse(text, from - 1, text + from, length - from, "input", &err);
        tokenizer_destroy(tokenizer);
    }
    str_deinit(&back);
    return 0;
}
