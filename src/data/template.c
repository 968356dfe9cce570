/*
 * template - a list of parts, literal or field, each with the number of its line.
 */
#include "data/template.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

struct part {
    char *literal; /* NULL for a field */
    size_t field;  /* index of the field */
    size_t line;   /* of the template, from 0 */
};

struct template
{
    struct part *parts; /* [n_parts] no literal goes past the end of a line */
    size_t n_parts;
    size_t parts_capacity;
    char **fields; /* [n_fields] */
    size_t n_fields;
    size_t fields_capacity;
};

/* Field parts have a NULL literal, which mem_free takes. */
void template_destroy(struct template *owned_form)
{
    if (owned_form == NULL) {
        return;
    }
    for (size_t i = 0; i < owned_form->n_parts; i++) {
        mem_free(owned_form->parts[i].literal);
    }
    for (size_t i = 0; i < owned_form->n_fields; i++) {
        mem_free(owned_form->fields[i]);
    }
    mem_free(owned_form->parts);
    mem_free(owned_form->fields);
    mem_free(owned_form);
}

/* The index of the field, which is entered if it is new. A search through all fields is
 * enough for the few that a template has. */
static size_t field_index(struct template *form, const char *name, size_t length)
{
    for (size_t i = 0; i < form->n_fields; i++) {
        if (strlen(form->fields[i]) == length &&
            memcmp(form->fields[i], name, length) == 0) {
            return i;
        }
    }
    form->fields = mem_reserve_one(form->fields, form->n_fields, &form->fields_capacity,
                                   sizeof(*form->fields));
    form->fields[form->n_fields] = mem_strndup(name, length);
    return form->n_fields++;
}

static void add_part(struct template *form, struct part part)
{
    form->parts = mem_reserve_one(form->parts, form->n_parts, &form->parts_capacity,
                                  sizeof(*form->parts));
    form->parts[form->n_parts++] = part;
}

/* Ends the literal that is being collected. Nothing is added where nothing was
 * collected, so there are no empty literals. */
static void add_literal(struct template *form, struct str *literal, size_t line)
{
    if (literal->length > 0) {
        const struct part part = {.literal = mem_strdup(literal->text), .line = line};
        add_part(form, part);
        str_clear(literal);
    }
}

/* Literals are collected until a field or the end of a line; so each part lies in one
 * line. A newline belongs to the line that it ends, so leaving a line out takes its
 * newline along. The number of the line goes up only with newlines of the template:
 * those inside values do not end a line. */
static bool parse(struct template *form, const char *text, struct str *literal,
                  struct error *err)
{
    size_t line = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if ((at[0] == '{' || at[0] == '}') && at[1] == at[0]) {
            str_add_char(literal, *at++);
        } else if (*at == '{') {
            const size_t length = strcspn(at + 1, "{}\n");
            if (length == 0 || at[1 + length] != '}') {
                return error_set(err, ERROR_USAGE,
                                 "template: character %td: expected {field} ({{ for a "
                                 "brace)",
                                 at - text + 1);
            }
            add_literal(form, literal, line);
            const size_t field = field_index(form, at + 1, length);
            add_part(form, (struct part){.field = field, .line = line});
            at += length + 1;
        } else if (*at == '}') {
            return error_set(err, ERROR_USAGE,
                             "template: character %td: } without { (}} for a brace)",
                             at - text + 1);
        } else {
            str_add_char(literal, *at);
            if (*at == '\n') {
                add_literal(form, literal, line++);
            }
        }
    }
    add_literal(form, literal, line);
    return true;
}

/* The literal is scratch of the parser; parts hold copies. */
struct template *template_create(const char *text, struct error *err)
{
    struct template *form = mem_alloc(sizeof(*form));
    struct str literal = {0};
    const bool is_done = parse(form, text, &literal, err);
    str_deinit(&literal);
    if (!is_done) {
        template_destroy(form);
        return NULL;
    }
    return form;
}

size_t template_n_fields(const struct template *form)
{
    return form->n_fields;
}

const char *template_field(const struct template *form, size_t i)
{
    ASSERT(i < form->n_fields);
    return form->fields[i];
}

/* Whether the line of parts [from, to) has fields and all of them are empty. A line
 * without fields always stays. */
static bool is_left_out(const struct template *form, size_t from, size_t to,
                        const struct template_value *values)
{
    bool has_field = false;
    for (size_t i = from; i < to; i++) {
        const struct part *part = &form->parts[i];
        if (part->literal == NULL) {
            has_field = true;
            if (values[part->field].length > 0) {
                return false;
            }
        }
    }
    return has_field;
}

/* Line by line: a line is a run of parts with the same number. */
void template_render(const struct template *form, const struct template_value *values,
                     struct str *out)
{
    size_t to;
    for (size_t from = 0; from < form->n_parts; from = to) {
        to = from;
        while (to < form->n_parts && form->parts[to].line == form->parts[from].line) {
            to++;
        }
        if (is_left_out(form, from, to, values)) {
            continue;
        }
        for (size_t i = from; i < to; i++) {
            const struct part *part = &form->parts[i];
            if (part->literal != NULL) {
                str_add(out, part->literal);
            } else if (values[part->field].length > 0) {
                str_add_bytes(out, values[part->field].text,
                              values[part->field].length);
            }
        }
    }
}
