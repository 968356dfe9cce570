/*
 * fuzz_records - any bytes as JSONL, read in each format, then packed into batches
 * (G9).
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "data/loader.h"
#include "data/records.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { ROW_TOKENS = 24 };

/* Byte tokens and a BOS; made once. */
static struct tokenizer *byte_tokenizer(void)
{
    struct error err;
    struct str json = {0};
    str_add(&json,
            "{\"added_tokens\": [{\"id\": 256, \"content\": \"<bos>\"}, {\"id\": "
            "257, \"content\": \"<eos>\"}], \"post_processor\": {\"type\": "
            "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
            "\"<bos>\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": "
            "{\"<bos>\": {\"ids\": [256]}}}, \"decoder\": {\"type\": \"Fuse\"}, "
            "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {");
    for (int i = 0; i < 256; i++) {
        str_printf(&json, "\"<0x%02X>\": %d, ", (unsigned)i, i);
    }
    str_add(&json, "\"<bos>\": 256, \"<eos>\": 257}, \"merges\": []}}");
    struct tokenizer *tokenizer =
        tokenizer_parse(json.text, json.length, NULL, 0, "fixed", &err);
    ASSERT(tokenizer != NULL);
    str_deinit(&json);
    return tokenizer;
}

/* Every token of every example comes out of the batches once. */
static void pack_all(const struct records *records, bool is_packed)
{
    const struct pack_options pack = {
        .row_tokens = ROW_TOKENS, .is_packed = is_packed, .is_shuffled = true};
    struct loader_options options = {
        .pack = pack, .step_rows = 3, .rows = 2, .n_ranks = 1};
    const struct loader_summary summary = loader_measure(records, &options, 1, 0);
    ASSERT(summary.n_real_tokens == records->counts.n_tokens);
    ASSERT(summary.n_targets == records->counts.n_targets);
    ASSERT(summary.target_capacity % 64 == 0);
    struct batch *batch = batch_create(1, ROW_TOKENS, ROW_TOKENS);
    for (size_t i = 0; i < records->n; i++) {
        batch_clear(batch, 0);
        const struct example example = records_example(records, i);
        batch_add(batch, 0, &example);
        ASSERT(batch->n_targets == example.n_targets);
        ASSERT(batch->n_targets > 0);
    }
    batch_destroy(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct tokenizer *tokenizer;
    static const char *const ignored[] = {"category"};
    if (tokenizer == NULL) {
        tokenizer = byte_tokenizer();
        log_set_level(LOG_ERROR); /* broken rows that are left out are named */
    }
    for (int format = RECORDS_PROMPT_COMPLETION; format <= RECORDS_TOKENS; format++) {
        struct error err = {.message = ""};
        struct records records = {0};
        const struct records_options options = {
            .format = (enum records_format)format,
            .template_text = "Q: {question}\nC: {context}\nA: ",
            .response = "answer",
            .ignore = ignored,
            .n_ignore = 1,
            .ends_with_eos = true,
            .row_tokens = ROW_TOKENS,
            /* Each way to treat long rows, and some broken rows allowed, as it comes. */
            .overlong = format == RECORDS_TEXT ? RECORDS_SPLIT
                        : length % 2 == 0      ? RECORDS_DROP
                                               : RECORDS_TRUNCATE,
            .max_bad_rows = (int64_t)(length % 3),
        };
        if (!records_read_text(&records, (const char *)bytes, length, "input", &options,
                               tokenizer, &err)) {
            ASSERT(err.message[0] != '\0');
        }
        if (records.n > 0) {
            pack_all(&records, true);
            pack_all(&records, false);
        }
        records_deinit(&records);
    }
    return 0;
}
