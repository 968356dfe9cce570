/*
 * row_format - JSON to text to tokens.
 */
#include "data/row_format.h"

#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/records.h"
#include "data/row.h"
#include "data/template.h"
#include "text/tokenizer.h"

struct row_format {
    const struct records_options *options;
    const struct tokenizer *tokenizer;
    struct template *form;     /* the prompt, for rows of text but chat; else NULL */
    const char *response;      /* field of the response, NULL = none */
    const char *const *extras; /* [n_extras] further fields that are used */
    size_t n_extras;
};

struct row_scratch {
    struct template_value
        *values; /* [fields of the form], borrowed from the JSON row */
    struct row row;
    struct str text; /* prompt and response of the current row */
};

/* --- options ---------------------------------------------------------------------- */

/* Which fields make the prompt and the response of this format. Plain formats are
 * templates with one field, so all rows of text take the same way. */
static bool choose_fields(struct row_format *format, struct error *err)
{
    static const char *const token_fields[] = {"input_ids", "labels", "position_ids",
                                               "attention_mask", "weight"};
    static const char *const chat_fields[] = {"messages", "conversations"};
    const struct records_options *options = format->options;
    const char *prompt = NULL;
    switch (options->format) {
    case RECORDS_CHAT:
        format->extras = chat_fields;
        format->n_extras = ARRAY_LENGTH(chat_fields);
        break;
    case RECORDS_PROMPT_COMPLETION:
        prompt = "{prompt}";
        format->response = "completion";
        break;
    case RECORDS_INSTRUCTION:
        prompt = options->template_text;
        format->response = options->response;
        if (prompt == NULL || format->response == NULL) {
            return error_set(err, ERROR_USAGE,
                             "data.format instruction needs data.template and "
                             "data.response");
        }
        break;
    case RECORDS_TEXT:
        prompt = "{text}";
        break;
    case RECORDS_TOKENS:
        format->extras = token_fields;
        format->n_extras = ARRAY_LENGTH(token_fields);
        return true;
    }
    if (format->tokenizer == NULL) {
        return error_set(err, ERROR_USAGE, "data.format %s needs a tokenizer",
                         records_format_name(options->format));
    }
    if (prompt == NULL) {
        return true; /* chat: the turn format takes the place of a template */
    }
    format->form = template_create(prompt, err);
    return format->form != NULL;
}

struct row_format *row_format_create(const struct records_options *options,
                                     const struct tokenizer *tokenizer,
                                     struct error *err)
{
    struct row_format *format = mem_alloc(sizeof(*format));
    format->options = options;
    format->tokenizer = tokenizer;
    if (!choose_fields(format, err)) {
        row_format_destroy(format);
        return NULL;
    }
    return format;
}

void row_format_destroy(struct row_format *format)
{
    if (format == NULL) {
        return;
    }
    template_destroy(format->form);
    mem_free(format);
}

int32_t row_format_bos(const struct row_format *format)
{
    return format->tokenizer != NULL && tokenizer_adds_bos(format->tokenizer)
               ? tokenizer_bos(format->tokenizer)
               : -1;
}

/* One more value than fields, so that the array exists for a template without fields. */
struct row_scratch *row_scratch_create(const struct row_format *format)
{
    struct row_scratch *scratch = mem_alloc(sizeof(*scratch));
    const size_t n = format->form == NULL ? 0 : template_n_fields(format->form);
    scratch->values = mem_alloc_array(n + 1, sizeof(*scratch->values));
    return scratch;
}

void row_scratch_destroy(struct row_scratch *scratch)
{
    if (scratch == NULL) {
        return;
    }
    mem_free(scratch->values);
    row_deinit(&scratch->row);
    str_deinit(&scratch->text);
    mem_free(scratch);
}

/* --- fields ----------------------------------------------------------------------- */

/* A text field that must be there; null counts as empty. A number is refused rather
 * than printed: there are many ways to print one, and each gives other tokens. */
static bool text_field(struct row *row, const json_t *object, const char *key,
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
    if (json_is_null(field)) {
        return true;
    }
    row->fault_field = key;
    return error_set(err, ERROR_DATA, "field \"%s\" is not a text", key);
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
static bool is_used(const struct row_format *format, const char *key)
{
    for (size_t i = 0; format->form != NULL && i < template_n_fields(format->form);
         i++) {
        if (strcmp(key, template_field(format->form, i)) == 0) {
            return true;
        }
    }
    return (format->response != NULL && strcmp(key, format->response) == 0) ||
           is_listed(key, format->extras, format->n_extras);
}

/* Every field that says something is used or left out on purpose (D4). A misspelled name
 * would otherwise train on rows without that part. */
static bool check_fields(const struct row_format *format, struct row *row,
                         json_t *object, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!is_used(format, key) && !row_says_nothing(value) &&
            !is_listed(key, format->options->ignore, format->options->n_ignore)) {
            row->fault_field = key;
            return error_set(err, ERROR_DATA,
                             "field \"%s\" is neither used nor ignored: %s or name it "
                             "in data.ignore",
                             key,
                             format->options->format == RECORDS_INSTRUCTION
                                 ? "use it in data.template"
                                 : "leave it out");
        }
    }
    return true;
}

/* --- rows ------------------------------------------------------------------------- */

/* Prompt, then response, into scratch->text; then tokens. border = length of the
 * prompt. Loss falls on the response, or on all where there is none (format text). */
static bool text_row(const struct row_format *format, struct row_scratch *scratch,
                     const json_t *object, struct error *err)
{
    const struct records_options *options = format->options;
    struct template_value response = {.text = "", .length = 0};
    for (size_t i = 0; i < template_n_fields(format->form); i++) {
        if (!text_field(&scratch->row, object, template_field(format->form, i),
                        &scratch->values[i], err)) {
            return false;
        }
    }
    if (format->response != NULL &&
        !text_field(&scratch->row, object, format->response, &response, err)) {
        return false;
    }
    str_clear(&scratch->text);
    template_render(format->form, scratch->values, &scratch->text);
    const size_t border = scratch->text.length;
    str_add_bytes(&scratch->text, response.text, response.length);
    return row_from_text(&scratch->row, format->tokenizer, str_text(&scratch->text),
                         scratch->text.length, border,
                         options->loss_on == RECORDS_LOSS_ON_ALL ||
                             format->response == NULL,
                         options->ends_with_eos, err);
}

/* data.ignore holds for fields of rows and of messages alike. */
static bool chat_row(const struct row_format *format, struct row_scratch *scratch,
                     const json_t *object, struct error *err)
{
    const struct records_options *options = format->options;
    const struct row_chat_options chat = {
        .format = options->chat_format,
        .has_loss_on_last = options->loss_on == RECORDS_LOSS_ON_LAST_RESPONSE,
        .has_loss_on_all = options->loss_on == RECORDS_LOSS_ON_ALL,
        .ignore = options->ignore,
        .n_ignore = options->n_ignore,
    };
    return row_from_chat(&scratch->row, object, &chat, format->tokenizer, err);
}

/* Where the key stands in the line, without its quotes' escapes: a key that is written
 * with them is not found. The same word as a text has no colon behind it. */
static const char *find_key(const char *line, size_t length, const char *key)
{
    const size_t n = strlen(key);
    const char *end = line + length;
    const char *at = line;
    while ((at = memmem(at, (size_t)(end - at), key, n)) != NULL) {
        const char *behind = at + n + 1; /* of the second quote */
        if (at > line && at[-1] == '"' && behind <= end && behind[-1] == '"') {
            while (behind < end && strchr(" \t\r", *behind) != NULL &&
                   *behind != '\0') {
                behind++;
            }
            if (behind < end && *behind == ':') {
                return at - 1;
            }
        }
        at++;
    }
    return NULL;
}

/* The column of a fault, counted from 1 in characters as libjansson does: that of the
 * field, or that where the object begins. */
static long long fault_column(const char *line, size_t length, const char *field)
{
    const char *at = field == NULL ? NULL : find_key(line, length, field);
    if (at == NULL) {
        for (at = line; at < line + length && (*at == ' ' || *at == '\t'); at++) {
        }
    }
    long long column = 1;
    for (const char *c = line; c < at; c++) {
        column += ((unsigned char)*c & 0xC0) != 0x80;
    }
    return column;
}

/* The column of the last character of a line, 1 at least. */
static long long end_column(const char *line, size_t length)
{
    long long column = 0;
    for (size_t i = 0; i < length && line[i] != '\n'; i++) {
        column += ((unsigned char)line[i] & 0xC0) != 0x80;
    }
    return column > 0 ? column : 1;
}

/* Parses one line into an object. Unlike json_parse it allows NUL in texts and tells
 * the column in the file. */
static json_t *parse_line(const char *text, size_t length, struct error *err)
{
    json_error_t fault;
    json_t *object =
        json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    if (object == NULL) {
        /* Where a line ends too early libjansson gives its last character, or, if there
         * is a line feed behind that, column 0. */
        const bool is_torn = fault.column == 0;
        error_set(err, ERROR_DATA, "column %lld: not valid JSON: %s",
                  is_torn ? end_column(text, length) : fault.column, fault.text);
        return NULL;
    }
    if (!json_is_object(object)) {
        error_set(err, ERROR_DATA, "column %lld: expected one JSON object in the line",
                  fault_column(text, length, NULL));
        json_decref(object);
        return NULL;
    }
    return object;
}

/* The JSON tree is freed before the row is used: ids and weights are copies. */
struct row *row_format_read(const struct row_format *format,
                            struct row_scratch *scratch, const char *line,
                            size_t length, struct error *err)
{
    json_t *object = parse_line(line, length, err);
    if (object == NULL) {
        return NULL;
    }
    row_clear(&scratch->row);
    /* Ids are held against the model's vocabulary where it is known, which may be
     * larger than the tokenizer's. */
    int32_t n_vocabulary = format->options->n_vocabulary;
    if (n_vocabulary == 0 && format->tokenizer != NULL) {
        n_vocabulary = tokenizer_n_tokens(format->tokenizer);
    }
    bool is_read;
    if (format->form != NULL) {
        is_read = text_row(format, scratch, object, err);
    } else if (format->options->format == RECORDS_CHAT) {
        is_read = chat_row(format, scratch, object, err);
    } else {
        is_read = row_from_tokens(&scratch->row, object, n_vocabulary, err);
    }
    /* What is missing is told before what is too much: a misspelled name is both. */
    is_read = is_read && check_fields(format, &scratch->row, object, err);
    if (!is_read && err->kind == ERROR_DATA) {
        error_wrap(err, "column %lld",
                   fault_column(line, length, scratch->row.fault_field));
    }
    scratch->row.fault_field = NULL; /* it may be part of the object */
    json_decref(object);
    return is_read ? &scratch->row : NULL;
}
