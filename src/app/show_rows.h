/*
 * show_rows - lathe tokenize --show: what the rows of a file become in training.
 *
 * Rows are read, rendered, encoded, weighted and cut by the code that training uses.
 */
#ifndef APP_SHOW_ROWS_H
#define APP_SHOW_ROWS_H

#include "base/base.h"

struct data_arguments;
struct error;

struct show_rows_options {
    const char *model;           /* its tokenizer and turn format are used */
    const char *path;            /* of the rows */
    struct data_arguments *data; /* how they are read; the format may be guessed */
    int64_t max_rows;            /* 0 = all */
    bool is_per_token;           /* a line for each token */
};

/* Prints to standard output. Broken rows are shown in their place; more of them than
 * data.max_bad_rows are an error at the end, as they are in training. */
MUST_USE bool show_rows(const struct show_rows_options *options, struct error *err);

#endif
