/*
 * fuzz_chat - any bytes as chat rows in both turn formats, and as a model's template (G9).
 */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "data/records.h"
#include "data/row.h"
#include "data/row_format.h"
#include "data/row_show.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { FIRST_ADDED = 256 };

/* Byte tokens, BOS and the turn marks of both formats; made once. */
static struct tokenizer *byte_tokenizer(void)
{
    static const char *const added[] = {"<bos>",   "<start_of_turn>", "<end_of_turn>",
                                        "<|turn>", "<turn|>",         "<|channel>"};
    struct error err;
    struct str json = {0};
    str_add(&json, "{\"added_tokens\": [");
    for (size_t i = 0; i < ARRAY_LENGTH(added); i++) {
        str_printf(&json, "%s{\"id\": %zu, \"content\": \"%s\", \"special\": true}",
                   i == 0 ? "" : ", ", FIRST_ADDED + i, added[i]);
    }
    str_add(&json, "], \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": "
                   "\"ByteFallback\"}, {\"type\": \"Fuse\"}]}, \"model\": {\"type\": "
                   "\"BPE\", \"byte_fallback\": true, \"merges\": [], \"vocab\": {");
    for (int i = 0; i < FIRST_ADDED; i++) {
        str_printf(&json, "%s\"<0x%02X>\": %d", i == 0 ? "" : ", ", (unsigned)i, i);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(added); i++) {
        str_printf(&json, ", \"%s\": %zu", added[i], FIRST_ADDED + i);
    }
    str_add(&json, "}}}");
    struct tokenizer *tokenizer =
        tokenizer_parse(json.text, json.length, NULL, 0, "fixed", &err);
    ASSERT(tokenizer != NULL);
    str_deinit(&json);
    return tokenizer;
}

/* What holds for every row that is read: one BOS, in front and without loss (C11), and
 * nothing that talks to a terminal when it is shown. */
static void check_row(const struct row *row, const struct tokenizer *tokenizer,
                      bool has_loss_on_all)
{
    const int32_t bos = tokenizer_bos(tokenizer);
    const struct row_show show = {.tokenizer = tokenizer, .n_kept = row->n / 2 + 1};
    struct str out = {0};
    ASSERT(row->n > 1 && row->n == row->tokens.n && row->n_documents == 1);
    ASSERT(row->tokens.ids[0] == bos);
    ASSERT(has_loss_on_all || row->weight[0] == 0.0F);
    for (size_t i = 1; i < row->n; i++) {
        ASSERT(row->tokens.ids[i] != bos && row->weight[i] >= 0);
    }
    row_show_text(&show, row, &out);
    row_show_tokens(&show, row, &out);
    for (size_t i = 0; i < out.length; i++) {
        const unsigned char c = (unsigned char)out.text[i];
        ASSERT(c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f));
    }
    str_deinit(&out);
}

/* Each line as a row of this format. */
static void read_rows(const char *text, size_t length,
                      const struct records_options *options,
                      const struct tokenizer *tokenizer)
{
    struct error err = {.message = ""};
    struct row_format *format = row_format_create(options, tokenizer, &err);
    ASSERT(format != NULL);
    struct row_scratch *scratch = row_scratch_create(format);
    size_t n;
    for (size_t at = 0; at < length; at += n + 1) {
        const char *newline = memchr(text + at, '\n', length - at);
        n = newline == NULL ? length - at : (size_t)(newline - text) - at;
        const struct row *row = row_format_read(format, scratch, text + at, n, &err);
        if (row != NULL) {
            check_row(row, tokenizer, options->loss_on == RECORDS_LOSS_ON_ALL);
        } else {
            ASSERT(err.message[0] != '\0' && strchr(err.message, '\n') == NULL);
        }
    }
    row_scratch_destroy(scratch);
    row_format_destroy(format);
}

/* The bytes as a template, and as a file that may hold one. */
static void read_template(const char *text, size_t length)
{
    struct error err = {.message = ""};
    struct str template = {0};
    struct str difference = {0};
    enum chat_format format = CHAT_GEMMA3;
    str_add_bytes(&template, text, length);
    chat_template_format(str_text(&template), &format);
    const bool is_known =
        chat_template_is_known(str_text(&template), format, &difference);
    ASSERT(is_known == (difference.length == 0));
    for (size_t i = 0; i < difference.length; i++) {
        ASSERT((unsigned char)difference.text[i] >= 0x20); /* one line of a warning */
    }
    str_clear(&template);
    if (!chat_template_of_json(text, length, "input", &template, &err)) {
        ASSERT(err.message[0] != '\0');
    }
    str_deinit(&template);
    str_deinit(&difference);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct tokenizer *tokenizer;
    static const char *const ignored[] = {"name"};
    if (tokenizer == NULL) {
        tokenizer = byte_tokenizer();
    }
    for (int format = CHAT_GEMMA3; format <= CHAT_GEMMA4; format++) {
        for (int loss = RECORDS_LOSS_ON_RESPONSE; loss <= RECORDS_LOSS_ON_ALL; loss++) {
            const struct records_options options = {
                .format = RECORDS_CHAT,
                .chat_format = (enum chat_format)format,
                .loss_on = (enum records_loss_on)loss,
                .ignore = ignored,
                .n_ignore = 1,
            };
            read_rows((const char *)bytes, length, &options, tokenizer);
        }
    }
    read_template((const char *)bytes, length);
    return 0;
}
