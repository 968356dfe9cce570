/*
 * row_show - a row for people: its text, and which tokens of it carry loss.
 *
 *     <bos><|turn>user
 *     2 + 2?<turn|>
 *     <|turn>model
 *     [[4<turn|>]]
 *
 * On a terminal colours take the place of the marks. Control characters and broken
 * UTF-8 are written as \x1b, so that no row can talk to the terminal.
 */
#ifndef DATA_ROW_SHOW_H
#define DATA_ROW_SHOW_H

#include "base/base.h"

struct row;
struct str;
struct tokenizer;

struct row_show {
    const struct tokenizer *tokenizer;
    bool has_colour;
    size_t n_kept; /* tokens that training sees; those behind them are cut off */
};

/* Appends the text of the row; it ends with a newline. [[...]] carries loss (with a
 * weight other than 1: [[...]]*0.5), ((...)) is cut off. */
void row_show_text(const struct row_show *show, const struct row *row, struct str *out);

/* Appends a line for each token: number, id, loss weight, text in quotes. */
void row_show_tokens(const struct row_show *show, const struct row *row,
                     struct str *out);

/* Appends one line that explains the marks or the colours. */
void row_show_legend(bool has_colour, struct str *out);

#endif
