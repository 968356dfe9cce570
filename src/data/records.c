/*
 * records - lines to rows to examples.
 */
#include "data/records.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/row.h"
#include "data/template.h"
#include "text/tokenizer.h"

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

/* The arrays of all examples go with the arena. */
void records_deinit(struct records *records)
{
    arena_destroy(records->arena);
    mem_free(records->examples);
    for (int32_t i = 0; i < records->n_sources; i++) {
        mem_free(records->sources[i].name);
    }
    mem_free(records->sources);
    *records = (struct records){0};
}

struct example records_example(const struct records *records, size_t i)
{
    ASSERT(i < records->n);
    return records->examples[i];
}

/* One reading of one file. */
struct reading {
    struct records *records;
    const struct records_options *options;
    const struct tokenizer *tokenizer;
    struct template *form;     /* the prompt, for rows of text */
    const char *response;      /* field of the response, NULL = none */
    const char *const *extras; /* [n_extras] further fields that are used */
    size_t n_extras;
    struct template_value *values; /* [n fields of form], borrowed from the JSON row */
    struct row row;                /* the current row, its memory reused */
    struct str text;               /* prompt and response of the current row */
};

/* --- fields ----------------------------------------------------------------------- */

/* A text field that must be there; null counts as empty. A number is refused rather
 * than printed: there are many ways to print one, and each gives other tokens. */
static bool text_field(const json_t *object, const char *key,
                       struct template_value *value, struct error *err)
{
    const json_t *field = json_object_get(object, key);
    *value = (struct template_value){.text = "", .length = 0};
    if (field == NULL) {
        return error_set(err, ERROR_DATA, "the row has no field \"%s\"", key);
    }
    if (json_is_string(field)) {
        value->text = json_string_value(field);
        value->length = json_string_length(field);
        return true;
    }
    return json_is_null(field)
               ? true
               : error_set(err, ERROR_DATA, "field \"%s\" is not a text", key);
}

/* Whether the key is one of list[n]. */
static bool is_listed(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(key, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the format uses this field. */
static bool is_used(const struct reading *reading, const char *key)
{
    for (size_t i = 0; reading->form != NULL && i < template_n_fields(reading->form);
         i++) {
        if (strcmp(key, template_field(reading->form, i)) == 0) {
            return true;
        }
    }
    return (reading->response != NULL && strcmp(key, reading->response) == 0) ||
           is_listed(key, reading->extras, reading->n_extras);
}

/* Every field is used or left out on purpose (D4). A misspelled name would otherwise
 * train on rows without that part. */
static bool check_fields(const struct reading *reading, json_t *object,
                         struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!is_used(reading, key) &&
            !is_listed(key, reading->options->ignore, reading->options->n_ignore)) {
            return error_set(err, ERROR_DATA,
                             "field \"%s\" is neither used nor ignored: %s or name it "
                             "in data.ignore",
                             key,
                             reading->options->format == RECORDS_INSTRUCTION
                                 ? "use it in data.template"
                                 : "leave it out");
        }
    }
    return true;
}

/* --- rows ------------------------------------------------------------------------- */

/* Prompt, then response, into reading->text; then tokens. border = length of the
 * prompt. Loss falls on the response, or on all where there is none (format text). */
static bool text_row(struct reading *reading, const json_t *object, struct error *err)
{
    const struct records_options *options = reading->options;
    struct template_value response = {.text = "", .length = 0};
    for (size_t i = 0; i < template_n_fields(reading->form); i++) {
        if (!text_field(object, template_field(reading->form, i), &reading->values[i],
                        err)) {
            return false;
        }
    }
    if (reading->response != NULL &&
        !text_field(object, reading->response, &response, err)) {
        return false;
    }
    str_clear(&reading->text);
    template_render(reading->form, reading->values, &reading->text);
    const size_t border = reading->text.length;
    str_add_bytes(&reading->text, response.text, response.length);
    return row_from_text(&reading->row, reading->tokenizer, str_text(&reading->text),
                         reading->text.length, border,
                         options->loss_on == RECORDS_LOSS_ON_ALL ||
                             reading->response == NULL,
                         options->ends_with_eos, err);
}

/* data.ignore holds for fields of rows and of messages alike. */
static bool chat_row(struct reading *reading, const json_t *object, struct error *err)
{
    const struct records_options *options = reading->options;
    const struct row_chat_options chat = {
        .format = options->chat_format,
        .has_loss_on_last = options->loss_on == RECORDS_LOSS_ON_LAST_RESPONSE,
        .has_loss_on_all = options->loss_on == RECORDS_LOSS_ON_ALL,
        .ignore = options->ignore,
        .n_ignore = options->n_ignore,
    };
    return row_from_chat(&reading->row, object, &chat, reading->tokenizer, err);
}

/* Cuts, counts, and copies the row into the arena; or drops it (C6). Dropped and cut
 * rows keep their number, so source_row counts rows of the file and not examples.
 * Arrays of an example are allocated once at their exact size, one behind the other in
 * the order in which they are read. */
static void keep_row(struct reading *reading, int64_t line)
{
    struct records *records = reading->records;
    struct row *row = &reading->row;
    const size_t limit = reading->options->row_tokens > 0
                             ? (size_t)reading->options->row_tokens
                             : INT32_MAX;
    /* Counted before anything can drop the row. */
    const int64_t source_row = records->n_rows++;
    if (row->n > limit) {
        records->n_truncated++;
    }
    const size_t n = row->n > limit ? limit : row->n;
    const int32_t n_targets = row_finish(row, n);
    if (n_targets == 0) {
        records->n_dropped++;
        return;
    }
    int32_t *ids = arena_alloc_array(records->arena, n, sizeof(*ids));
    float *weight = arena_alloc_array(records->arena, n, sizeof(*weight));
    int32_t *from = arena_alloc_array(records->arena, row->n_documents, sizeof(*from));
    memcpy(ids, row->tokens.ids, n * sizeof(*ids));
    memcpy(weight, row->weight, n * sizeof(*weight));
    memcpy(from, row->document_from, row->n_documents * sizeof(*from));
    records->examples = mem_reserve_one(records->examples, records->n,
                                        &records->capacity, sizeof(*records->examples));
    records->examples[records->n++] = (struct example){
        .ids = ids,
        .loss_weight = weight,
        .document_from = from,
        .n = (int32_t)n,
        .n_documents = (int32_t)row->n_documents,
        .n_targets = n_targets,
        .source_row = source_row,
        .line = line,
        .source = records->n_sources - 1,
    };
    records->sources[records->n_sources - 1].n++;
    records->n_tokens += (int64_t)n;
    records->n_targets += n_targets;
}

/* Parses one line into an object. Unlike json_parse it allows NUL in texts and tells
 * the column in the file. */
static json_t *parse_line(const char *text, size_t length, struct error *err)
{
    json_error_t fault;
    json_t *object =
        json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    if (object == NULL) {
        error_set(err, ERROR_DATA, "column %d: not valid JSON: %s", fault.column,
                  fault.text);
        return NULL;
    }
    if (!json_is_object(object)) {
        error_set(err, ERROR_DATA, "expected one JSON object in the line");
        json_decref(object);
        return NULL;
    }
    return object;
}

/* One row from JSON to the arena. The JSON tree is freed before the row is kept: ids
 * and weights are copies. */
static bool read_line(struct reading *reading, const char *text, size_t length,
                      int64_t line, struct error *err)
{
    json_t *object = parse_line(text, length, err);
    if (object == NULL) {
        return false;
    }
    row_clear(&reading->row);
    /* Ids are held against the model's vocabulary where it is known, which may be
     * larger than the tokenizer's. */
    int32_t n_vocabulary = reading->options->n_vocabulary;
    if (n_vocabulary == 0 && reading->tokenizer != NULL) {
        n_vocabulary = tokenizer_n_tokens(reading->tokenizer);
    }
    /* What is missing is told before what is too much: a misspelled name is both. */
    bool is_read;
    if (reading->form != NULL) {
        is_read = text_row(reading, object, err);
    } else if (reading->options->format == RECORDS_CHAT) {
        is_read = chat_row(reading, object, err);
    } else {
        is_read = row_from_tokens(&reading->row, object, n_vocabulary, err);
    }
    is_read = is_read && check_fields(reading, object, err);
    json_decref(object);
    if (is_read) {
        keep_row(reading, line);
    }
    return is_read;
}

/* Nothing but white space: such lines are passed over and not counted as rows. */
static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr(" \t\r", text[i]) == NULL || text[i] == '\0') {
            return false;
        }
    }
    return true;
}

/* Adds file and line to the message of a row that failed. A file without a newline at
 * its end has a last line all the same; max_rows counts rows of this call only. The
 * message names the line in the file, blank ones counted. */
static bool read_lines(struct reading *reading, const char *text, size_t length,
                       const char *where, struct error *err)
{
    const int64_t max_rows = reading->options->max_rows;
    const int64_t first = reading->records->n_rows;
    /* Some editors put a byte order mark in front of UTF-8. */
    const bool has_mark = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    int64_t line = 0;
    size_t to;
    for (size_t from = has_mark ? 3 : 0; from < length; from = to + 1) {
        const char *end = memchr(text + from, '\n', length - from);
        to = end == NULL ? length : (size_t)(end - text);
        line++;
        if (is_blank(text + from, to - from)) {
            continue;
        }
        if (max_rows > 0 && reading->records->n_rows - first == max_rows) {
            break;
        }
        if (!read_line(reading, text + from, to - from, line, err)) {
            return error_wrap(err, "%s:%lld", where, (long long)line);
        }
    }
    return true;
}

/* --- options ---------------------------------------------------------------------- */

/* Which fields make the prompt and the response of this format. Plain formats are
 * templates with one field, so all rows of text take the same way. */
static bool choose_fields(struct reading *reading, struct error *err)
{
    static const char *const token_fields[] = {"input_ids", "labels", "position_ids",
                                               "attention_mask", "weight"};
    static const char *const chat_fields[] = {"messages", "conversations"};
    const struct records_options *options = reading->options;
    const char *prompt = NULL;
    switch (options->format) {
    case RECORDS_CHAT:
        reading->extras = chat_fields;
        reading->n_extras = ARRAY_LENGTH(chat_fields);
        break;
    case RECORDS_PROMPT_COMPLETION:
        prompt = "{prompt}";
        reading->response = "completion";
        break;
    case RECORDS_INSTRUCTION:
        prompt = options->template_text;
        reading->response = options->response;
        if (prompt == NULL || reading->response == NULL) {
            return error_set(err, ERROR_USAGE,
                             "data.format instruction needs data.template and "
                             "data.response");
        }
        break;
    case RECORDS_TEXT:
        prompt = "{text}";
        break;
    case RECORDS_TOKENS:
        reading->extras = token_fields;
        reading->n_extras = ARRAY_LENGTH(token_fields);
        return true;
    }
    if (reading->tokenizer == NULL) {
        return error_set(err, ERROR_USAGE, "data.format %s needs a tokenizer",
                         records_format_name(options->format));
    }
    if (prompt == NULL) {
        return true; /* chat: the turn format takes the place of a template */
    }
    reading->form = template_create(prompt, err);
    return reading->form != NULL;
}

/* The scratch of the reading lives as long as the call. One more value than fields, so
 * that the array exists for a template without fields. */
bool records_read_text(struct records *records, const char *text, size_t length,
                       const char *where, const struct records_options *options,
                       const struct tokenizer *tokenizer, struct error *err)
{
    struct reading reading = {
        .records = records, .options = options, .tokenizer = tokenizer};
    if (records->arena == NULL) {
        records->arena = arena_create();
    }
    records->sources =
        mem_reserve_one(records->sources, (size_t)records->n_sources,
                        &records->sources_capacity, sizeof(*records->sources));
    records->sources[records->n_sources++] =
        (struct records_source){.name = mem_strdup(where), .weight = 1.0};
    bool is_done = choose_fields(&reading, err);
    if (is_done && reading.form != NULL) {
        reading.values = mem_alloc_array(template_n_fields(reading.form) + 1,
                                         sizeof(*reading.values));
    }
    is_done = is_done && read_lines(&reading, text, length, where, err);
    template_destroy(reading.form);
    mem_free(reading.values);
    row_deinit(&reading.row);
    str_deinit(&reading.text);
    return is_done;
}

/* Mapped, not read: a file may be larger than what should be kept of it, and nothing
 * points into the map afterwards. */
bool records_read_file(struct records *records, const char *path,
                       const struct records_options *options,
                       const struct tokenizer *tokenizer, struct error *err)
{
    struct file_map map = {0};
    if (!file_map_open(&map, path, err)) {
        return false;
    }
    const bool is_done = records_read_text(records, (const char *)map.bytes, map.length,
                                           path, options, tokenizer, err);
    file_map_close(&map);
    return is_done;
}
