/*
 * row_cache_key - what makes one cache file differ from another: all that decides what
 * rows become.
 */
#include "data/row_cache.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "text/tokenizer.h"

/* A text with its length in front, so that neighbours cannot run into each other; NULL
 * differs from "". */
static void hash_text(XXH3_state_t *state, const char *text)
{
    const uint64_t length = text == NULL ? UINT64_MAX : strlen(text);
    XXH3_128bits_update(state, &length, sizeof(length));
    if (text != NULL) {
        XXH3_128bits_update(state, text, length);
    }
}

struct row_cache_key row_cache_key(const struct line_hash *file,
                                   const struct records_options *options,
                                   const struct tokenizer *tokenizer)
{
    const bool is_chat = options->format == RECORDS_CHAT;
    const uint64_t numbers[] = {
        ROW_CACHE_VERSION,
        file->low,
        file->high,
        tokenizer == NULL ? 0 : tokenizer_fingerprint(tokenizer),
        options->format,
        is_chat ? options->chat_format + 1 : 0,
        options->ends_with_eos,
        options->loss_on,
        options->overlong,
        (uint64_t)options->row_tokens,
        (uint64_t)options->max_rows,
        (uint64_t)options->n_vocabulary,
        options->n_ignore,
    };
    XXH3_state_t *state = XXH3_createState();
    ASSERT(state != NULL);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, numbers, sizeof(numbers));
    hash_text(state, options->template_text);
    hash_text(state, options->response);
    for (size_t i = 0; i < options->n_ignore; i++) {
        hash_text(state, options->ignore[i]);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return (struct row_cache_key){.low = hash.low64, .high = hash.high64};
}

char *row_cache_path(const char *folder, const struct row_cache_key *key)
{
    char name[64];
    snprintf(name, sizeof(name), "%016llx%016llx.rows", (unsigned long long)key->high,
             (unsigned long long)key->low);
    return file_join(folder, name);
}
