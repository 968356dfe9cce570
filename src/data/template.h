/*
 * template - "Instruction: {question}\nResponse: " with the fields of a row put in.
 *
 * {name} stands for a field, {{ and }} for braces. A line that has fields, all of them
 * empty in this row, is left out with its newline: an optional field with its heading
 * then leaves no empty heading behind.
 */
#ifndef DATA_TEMPLATE_H
#define DATA_TEMPLATE_H

#include "base/base.h"

struct error;
struct str;
struct template;

/* The value of one field in one row. */
struct template_value {
    const char *text; /* may hold any bytes */
    size_t length;
};

/* Parses; a brace without its partner and a field without a name are errors. */
MUST_USE struct template *template_create(const char *text, struct error *err);
void template_destroy(struct template *owned_form); /* takes NULL */

/* The fields, each once, in the order in which they first appear. */
size_t template_n_fields(const struct template *form);
const char *template_field(const struct template *form, size_t i);

/* Appends the text with values[i] for field i. */
void template_render(const struct template *form, const struct template_value *values,
                     struct str *out);

#endif
