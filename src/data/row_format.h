/*
 * row_format - what a row of each format becomes: one line of JSON to tokens with loss.
 *
 *     struct row_format *format = row_format_create(&options, tokenizer, err);
 *     struct row_scratch *scratch = row_scratch_create(format);
 *     if (row_format_read(format, scratch, line, length, err)) ... row_scratch_row(...)
 *
 * A format does not change once it is made: any number of threads may read rows with it,
 * each with a scratch of its own.
 */
#ifndef DATA_ROW_FORMAT_H
#define DATA_ROW_FORMAT_H

#include "base/base.h"

struct error;
struct records_options;
struct row;
struct row_format;
struct row_scratch;
struct tokenizer;

/* Options and tokenizer are borrowed; the tokenizer may be NULL for token rows. Fails
 * where the options lack what the format needs. */
MUST_USE struct row_format *row_format_create(const struct records_options *options,
                                              const struct tokenizer *tokenizer,
                                              struct error *err);
void row_format_destroy(struct row_format *format); /* takes NULL */

/* The token that each example of text begins with; -1 = none. */
int32_t row_format_bos(const struct row_format *format);

/* The memory of one thread, used again from row to row. */
struct row_scratch *row_scratch_create(const struct row_format *format);
void row_scratch_destroy(struct row_scratch *scratch); /* takes NULL */

/* Reads line[0 .. length). NULL where the row is broken: the message begins with the
 * column, not with file and line: that of the field it is about, or of the object where
 * it lacks something. The row is valid until the next call. */
MUST_USE struct row *row_format_read(const struct row_format *format,
                                     struct row_scratch *scratch, const char *line,
                                     size_t length, struct error *err);

#endif
