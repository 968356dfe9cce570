/*
 * records - files to examples: in memory, or through the cache of tokenised rows.
 */
#include "data/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/example_store.h"
#include "data/ingest.h"
#include "data/line_window.h"
#include "data/row_cache.h"

static const char *const format_names[] = {
    [RECORDS_CHAT] = "chat",
    [RECORDS_PROMPT_COMPLETION] = "prompt-completion",
    [RECORDS_INSTRUCTION] = "instruction",
    [RECORDS_TEXT] = "text",
    [RECORDS_TOKENS] = "tokens",
};

/* Names and values come from one table, so they cannot disagree. */
bool records_format_from_name(const char *name, enum records_format *format)
{
    for (size_t i = 0; i < ARRAY_LENGTH(format_names); i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *format = (enum records_format)i;
            return true;
        }
    }
    return false;
}

const char *records_format_name(enum records_format format)
{
    return format_names[format];
}

/* --- sets of examples ------------------------------------------------------------- */

void records_deinit(struct records *records)
{
    example_store_release(records->store);
    for (int32_t i = 0; i < records->n_sources; i++) {
        mem_free(records->sources[i].name);
    }
    mem_free(records->sources);
    mem_free(records->chosen);
    mem_free(records->chosen_lengths);
    mem_free(records->chosen_target_counts);
    *records = (struct records){0};
}

struct example records_example(const struct records *records, size_t i)
{
    ASSERT(i < records->n);
    const size_t place = records->chosen == NULL ? i : (size_t)records->chosen[i];
    return example_store_get(records->store, place);
}

void records_drop(const struct records *records)
{
    if (records->store != NULL) {
        example_store_drop(records->store);
    }
}

static void *copy_of(const void *items, size_t n, size_t element_bytes)
{
    void *copy = mem_alloc_array(n + 1, element_bytes);
    if (n > 0) {
        memcpy(copy, items, n * element_bytes);
    }
    return copy;
}

struct records records_share(const struct records *records)
{
    const size_t n = records->n;
    struct records other = *records;
    if (records->store != NULL) {
        example_store_share(records->store);
    }
    other.sources = copy_of(records->sources, (size_t)records->n_sources,
                            sizeof(*records->sources));
    other.sources_capacity = (size_t)records->n_sources + 1;
    for (int32_t i = 0; i < other.n_sources; i++) {
        other.sources[i].name = mem_strdup(records->sources[i].name);
    }
    if (records->chosen != NULL) {
        other.chosen = copy_of(records->chosen, n, sizeof(int32_t));
        other.chosen_lengths = copy_of(records->chosen_lengths, n, sizeof(int32_t));
        other.chosen_target_counts =
            copy_of(records->chosen_target_counts, n, sizeof(int32_t));
        other.lengths = other.chosen_lengths;
        other.target_counts = other.chosen_target_counts;
    }
    return other;
}

/* Enters what is kept of one source, whose examples are first .. first + n - 1. */
static void choose_of_source(struct records *records, struct records_source *source,
                             const bool *chosen, bool wanted, size_t *n_kept)
{
    struct records_counts *counts = &source->counts;
    const size_t first = source->first;
    const size_t end = first + source->n;
    source->first = *n_kept;
    counts->n_tokens = 0;
    counts->n_targets = 0;
    for (size_t i = first; i < end; i++) {
        if (chosen[i] != wanted) {
            continue;
        }
        /* In place: what is written is never ahead of what is read. */
        records->chosen[*n_kept] = records->chosen[i];
        records->chosen_lengths[*n_kept] = records->chosen_lengths[i];
        records->chosen_target_counts[*n_kept] = records->chosen_target_counts[i];
        counts->n_tokens += records->chosen_lengths[*n_kept];
        counts->n_targets += records->chosen_target_counts[*n_kept];
        (*n_kept)++;
    }
    source->n = *n_kept - source->first;
    counts->n_examples = (int64_t)source->n;
    records->counts.n_examples += counts->n_examples;
    records->counts.n_tokens += counts->n_tokens;
    records->counts.n_targets += counts->n_targets;
}

/* A list of all is the start where there was none. */
void records_choose(struct records *records, const bool *chosen, bool wanted)
{
    const size_t n = records->n;
    if (records->chosen == NULL) {
        records->chosen = mem_alloc_array(n + 1, sizeof(int32_t));
        for (size_t i = 0; i < n; i++) {
            records->chosen[i] = (int32_t)i;
        }
        records->chosen_lengths = copy_of(records->lengths, n, sizeof(int32_t));
        records->chosen_target_counts =
            copy_of(records->target_counts, n, sizeof(int32_t));
    }
    records->counts.n_examples = 0;
    records->counts.n_tokens = 0;
    records->counts.n_targets = 0;
    size_t n_kept = 0;
    for (int32_t i = 0; i < records->n_sources; i++) {
        choose_of_source(records, &records->sources[i], chosen, wanted, &n_kept);
    }
    records->n = n_kept;
    records->lengths = records->chosen_lengths;
    records->target_counts = records->chosen_target_counts;
}

/* --- adding ----------------------------------------------------------------------- */

/* A new source; more can only be added while all examples are chosen. */
static struct records_source *add_source(struct records *records, const char *name)
{
    ASSERT(records->chosen == NULL);
    if (records->store == NULL) {
        records->store = example_store_create();
    }
    records->sources =
        mem_reserve_one(records->sources, (size_t)records->n_sources,
                        &records->sources_capacity, sizeof(*records->sources));
    struct records_source *source = &records->sources[records->n_sources++];
    *source = (struct records_source){
        .name = mem_strdup(name), .first = records->n, .weight = 1.0};
    return source;
}

/* Brings the totals up to what the store holds. Indices of examples have 31 bits. */
static bool close_source(struct records *records, const struct records_counts *counts,
                         struct error *err)
{
    struct records_source *source = &records->sources[records->n_sources - 1];
    struct records_counts *all = &records->counts;
    source->n = records->store->n - source->first;
    source->counts = *counts;
    records->n = records->store->n;
    records->lengths = records->store->lengths;
    records->target_counts = records->store->target_counts;
    all->n_rows += counts->n_rows;
    all->n_bad += counts->n_bad;
    all->n_truncated += counts->n_truncated;
    all->n_too_long += counts->n_too_long;
    all->n_split += counts->n_split;
    all->n_dropped += counts->n_dropped;
    all->n_lost_thoughts += counts->n_lost_thoughts;
    all->n_examples += counts->n_examples;
    all->n_tokens += counts->n_tokens;
    all->n_targets += counts->n_targets;
    return records->n <= INT32_MAX ||
           error_set(err, ERROR_DATA, "%s: more than %d examples in all", source->name,
                     INT32_MAX);
}

static bool take_into_memory(void *context, const struct row_block *block,
                             int64_t first_row, int64_t first_line, struct error *err)
{
    (void)err;
    struct records *records = context;
    example_store_add_block(records->store, block, first_row, first_line,
                            records->n_sources - 1);
    return true;
}

/* Lines to blocks in memory. What was read before a failure stays. */
static bool read_lines(struct records *records, struct line_window *owned_lines,
                       const char *where, const struct records_options *options,
                       const struct tokenizer *tokenizer,
                       const struct records_reading *reading, struct error *err)
{
    struct ingest_result result = {.faults = {0}};
    const struct ingest_options ingest = {.where = where,
                                          .records = options,
                                          .tokenizer = tokenizer,
                                          .pool = reading->pool,
                                          .take = take_into_memory,
                                          .context = records,
                                          .progress = reading->progress,
                                          .progress_context = reading->context};
    add_source(records, where)->weight = reading->weight;
    bool is_done = ingest_run(owned_lines, &ingest, &result, err);
    is_done = close_source(records, &result.counts, err) && is_done;
    str_deinit(&result.faults);
    line_window_close(owned_lines);
    return is_done;
}

bool records_read_text(struct records *records, const char *text, size_t length,
                       const char *where, const struct records_options *options,
                       const struct tokenizer *tokenizer, struct error *err)
{
    const struct records_reading reading = {.weight = 1.0};
    return read_lines(records, line_window_view(text, length, where), where, options,
                      tokenizer, &reading, err);
}

bool records_read_file(struct records *records, const char *path,
                       const struct records_options *options,
                       const struct tokenizer *tokenizer, struct error *err)
{
    const struct records_reading reading = {.weight = 1.0};
    struct line_window *lines = line_window_open(path, err);
    return lines != NULL &&
           read_lines(records, lines, path, options, tokenizer, &reading, err);
}

/* --- through the cache ------------------------------------------------------------ */

/* One file on its way through the cache. */
struct opening {
    const char *path;
    const struct records_options *options;
    const struct tokenizer *tokenizer;
    const struct records_reading *reading;
    struct line_hash hash;
    struct row_cache_key key;
    char *folder; /* of the cache */
};

static bool take_into_cache(void *context, const struct row_block *block,
                            int64_t first_row, int64_t first_line, struct error *err)
{
    return row_cache_add(context, block, first_row, first_line, err);
}

/* The user's cache folder holds other things, too: rows have a folder in it. */
char *records_cache_folder(const char *named, struct error *err)
{
    if (named != NULL) {
        return mem_strdup(named);
    }
    char *cache = file_cache_folder(err);
    char *folder = cache == NULL ? NULL : file_join(cache, "rows");
    mem_free(cache);
    return folder;
}

/* A file without a name, in the first of the usual places that takes one. */
static struct row_cache_writer *create_unnamed(struct error *err)
{
    const char *const folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    struct row_cache_writer *writer = NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(folders) && writer == NULL; i++) {
        if (folders[i] != NULL && folders[i][0] != '\0') {
            writer = row_cache_create(folders[i], NULL, err);
        }
    }
    return writer;
}

/* Where the tokenised rows are written to. The user's cache folder is a convenience: a
 * run goes on without it. A folder that the settings name is an order. */
static struct row_cache_writer *create_writer(const struct opening *opening,
                                              struct error *err)
{
    struct row_cache_writer *writer =
        opening->folder == NULL ? NULL
                                : row_cache_create(opening->folder, &opening->key, err);
    if (writer != NULL) {
        return writer;
    }
    if (opening->reading->cache_folder != NULL) {
        error_wrap(err, "data.cache");
        return NULL;
    }
    log_warning("the tokenised rows of %s are not kept for the next run: %s",
                opening->path, err->message);
    writer = create_unnamed(err);
    if (writer == NULL) {
        error_wrap(err, "%s: its tokenised rows have no place; name one in data.cache",
                   opening->path);
    }
    return writer;
}

/* Tokenises the file. Its bytes are hashed again on the way: a file that somebody writes
 * to meanwhile must not be found under the hash that it had. */
static struct row_cache *build(const struct opening *opening, struct error *err)
{
    struct ingest_result result = {.faults = {0}};
    struct row_cache *cache = NULL;
    struct row_cache_writer *writer = create_writer(opening, err);
    struct line_window *lines =
        writer == NULL ? NULL : line_window_open(opening->path, err);
    if (lines == NULL) {
        goto end;
    }
    const struct ingest_options ingest = {
        .where = opening->path,
        .records = opening->options,
        .tokenizer = opening->tokenizer,
        .pool = opening->reading->pool,
        .take = take_into_cache,
        .context = writer,
        .progress = opening->reading->progress,
        .progress_context = opening->reading->context,
    };
    if (!ingest_run(lines, &ingest, &result, err)) {
        goto end;
    }
    const struct line_hash hash = line_window_hash(lines);
    if (opening->options->max_rows == 0 &&
        (hash.low != opening->hash.low || hash.high != opening->hash.high)) {
        error_set(err, ERROR_DATA, "%s: has changed while it was read", opening->path);
        goto end;
    }
    cache = row_cache_finish(writer, &result.counts, str_text(&result.faults), err);
    writer = NULL;

end:
    row_cache_abort(writer);
    line_window_close(lines);
    str_deinit(&result.faults);
    return cache;
}

/* The cache that an earlier run left; NULL where there is none that can be used. */
static struct row_cache *open_cache(const struct opening *opening)
{
    const struct records_options *options = opening->options;
    const int64_t most = options->row_tokens > 0 ? options->row_tokens : INT32_MAX;
    struct error fault;
    struct row_cache *cache = opening->folder == NULL
                                  ? NULL
                                  : row_cache_open(opening->folder, &opening->key, most,
                                                   opening->reading->pool, &fault);
    if (cache == NULL) {
        if (opening->folder != NULL && fault.kind != ERROR_NOT_FOUND) {
            log_note("%s; the rows of %s are tokenised again", fault.message,
                     opening->path);
        }
        return NULL;
    }
    const struct records_counts *counts = row_cache_counts(cache);
    if (counts->n_bad > options->max_bad_rows) {
        /* Reading again names the row that is too many. */
        row_cache_close(cache);
        return NULL;
    }
    ingest_report(opening->path, row_cache_faults(cache), counts->n_bad);
    return cache;
}

/* Opens or builds the cache of a file and adds its examples. */
static bool open_through_cache(struct records *records, struct opening *opening,
                               struct error *err)
{
    if (!line_window_hash_file(opening->path, &opening->hash, err)) {
        return false;
    }
    opening->key = row_cache_key(&opening->hash, opening->options, opening->tokenizer);
    opening->folder = records_cache_folder(opening->reading->cache_folder, err);
    struct row_cache *cache = open_cache(opening);
    const bool is_cached = cache != NULL;
    if (cache == NULL) {
        cache = build(opening, err);
    }
    mem_free(opening->folder);
    if (cache == NULL) {
        return false;
    }
    struct records_source *source = add_source(records, opening->path);
    source->weight = opening->reading->weight;
    source->is_cached = is_cached;
    source->is_kept = is_cached || row_cache_is_kept(cache);
    example_store_add_cache(records->store, cache, records->n_sources - 1);
    return close_source(records, row_cache_counts(cache), err);
}

bool records_open_file(struct records *records, const char *path,
                       const struct records_options *options,
                       const struct tokenizer *tokenizer,
                       const struct records_reading *reading, struct error *err)
{
    struct line_window *lines = line_window_open(path, err);
    if (lines == NULL) {
        return false;
    }
    if (reading->cache_folder == NULL &&
        line_window_bytes(lines) < RECORDS_CACHE_FROM_BYTES) {
        return read_lines(records, lines, path, options, tokenizer, reading, err);
    }
    line_window_close(lines);
    struct opening opening = {
        .path = path, .options = options, .tokenizer = tokenizer, .reading = reading};
    return open_through_cache(records, &opening, err);
}
