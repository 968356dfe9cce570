/*
 * row_show - runs of tokens of one kind, decoded together and put between marks.
 *
 * Together, because a character may be spread over several byte tokens; that all of
 * them are of one kind is the rule.
 */
#include "data/row_show.h"

#include "base/str.h"
#include "data/row.h"
#include "text/tokenizer.h"

/* How a run of tokens is shown. */
enum kind { KIND_CONTEXT, KIND_MARK, KIND_LOSS, KIND_CUT, N_KINDS };

/* Plain marks around a run, and the colour of one (SGR). */
static const struct {
    const char *open;
    const char *close;
    const char *colour;
} looks[N_KINDS] = {
    [KIND_CONTEXT] = {"", "", ""},
    [KIND_MARK] = {"", "", "\x1b[36m"},
    [KIND_LOSS] = {"[[", "]]", "\x1b[1;32m"},
    [KIND_CUT] = {"((", "))", "\x1b[9;31m"},
};
static const char reset[] = "\x1b[0m";

/* A control token that carries loss is shown as loss, which is what matters more. */
static enum kind kind_of(const struct row_show *show, const struct row *row, size_t i)
{
    if (i >= show->n_kept) {
        return KIND_CUT;
    }
    if (row->weight[i] > 0) {
        return KIND_LOSS;
    }
    return tokenizer_is_special(show->tokenizer, row->tokens.ids[i]) ? KIND_MARK
                                                                     : KIND_CONTEXT;
}

/* Length of the character at text[0 .. length) that may be printed as it is, or 0:
 * control characters of both sets (U+0000 on, U+0080 on) and broken UTF-8 may not. */
static size_t printable(const char *text, size_t length)
{
    const unsigned char c = (unsigned char)text[0];
    const int n = str_utf8_length(text, length);
    const bool is_control = c < 0x20 || c == 0x7f ||
                            (c == 0xc2 && length > 1 && (unsigned char)text[1] < 0xa0);
    return n == 0 || is_control ? 0 : (size_t)n;
}

/* Appends text with what cannot be printed escaped. Newlines and tabs stay where the
 * text is shown as it is, and are escaped in a line of its own. With a colour, newlines
 * are kept out of it: pagers colour line by line. */
static void add_text(const struct str *text, const char *colour, bool is_one_line,
                     bool shows_newlines, struct str *out)
{
    size_t n;
    for (size_t i = 0; i < text->length; i += n) {
        const char c = text->text[i];
        n = printable(text->text + i, text->length - i);
        if (n > 0) {
            str_add_bytes(out, text->text + i, n);
            continue;
        }
        n = 1;
        if (c == '\n' && !is_one_line) {
            str_printf(out, "%s%s\n%s", shows_newlines ? "\xe2\x86\xb5" : "",
                       colour[0] == '\0' ? "" : reset, colour);
        } else if (c == '\t' && !is_one_line) {
            str_add_char(out, c);
        } else if (c == '\n' || c == '\t') {
            str_add(out, c == '\n' ? "\\n" : "\\t");
        } else {
            str_printf(out, "\\x%02x", (unsigned char)c);
        }
    }
}

/* Tokens [from, to), which are of one kind and weight. In colour a newline that carries
 * loss would not be seen, so a sign stands for it. */
static void add_run(const struct row_show *show, const struct row *row, size_t from,
                    size_t to, struct str *out)
{
    const enum kind kind = kind_of(show, row, from);
    const char *colour = show->has_colour ? looks[kind].colour : "";
    struct str text = {0};
    tokenizer_decode(show->tokenizer, row->tokens.ids + from, to - from, false, &text);
    str_add(out, show->has_colour ? colour : looks[kind].open);
    add_text(&text, colour, false, show->has_colour && kind == KIND_LOSS, out);
    str_add(out, !show->has_colour   ? looks[kind].close
                 : colour[0] != '\0' ? reset
                                     : "");
    if (kind == KIND_LOSS && row->weight[from] != 1.0F) {
        str_printf(out, "*%g", (double)row->weight[from]);
    }
    str_deinit(&text);
}

/* Whether token i begins a document other than the first. Rows have few documents, so a
 * search will do. */
static bool begins_document(const struct row *row, size_t i)
{
    for (size_t k = 1; k < row->n_documents; k++) {
        if ((size_t)row->document_from[k] == i) {
            return true;
        }
    }
    return false;
}

/* Cuts the row into runs: of one kind, of one weight, within one document. All tokens
 * are walked, also those behind row->n, which row_finish has cut off. */
void row_show_text(const struct row_show *show, const struct row *row, struct str *out)
{
    const size_t n = row->tokens.n;
    size_t to;
    for (size_t from = 0; from < n; from = to) {
        const enum kind kind = kind_of(show, row, from);
        if (begins_document(row, from)) {
            str_add(out, "\n--- another document ---\n");
        }
        to = from + 1;
        while (to < n && kind_of(show, row, to) == kind && !begins_document(row, to) &&
               (kind != KIND_LOSS || row->weight[to] == row->weight[from])) {
            to++;
        }
        add_run(show, row, from, to, out);
    }
    if (out->length == 0 || out->text[out->length - 1] != '\n') {
        str_add_char(out, '\n');
    }
}

/* Columns are wide enough for a million tokens and ids; the text comes last, as it has
 * any width. Each token is decoded alone: half a character shows as its bytes. */
void row_show_tokens(const struct row_show *show, const struct row *row,
                     struct str *out)
{
    struct str text = {0};
    for (size_t i = 0; i < row->tokens.n; i++) {
        const enum kind kind = kind_of(show, row, i);
        const char *colour = show->has_colour ? looks[kind].colour : "";
        str_clear(&text);
        tokenizer_decode(show->tokenizer, &row->tokens.ids[i], 1, false, &text);
        str_printf(out, "%6zu %7d ", i, row->tokens.ids[i]);
        if (kind == KIND_CUT) {
            str_add(out, "   cut ");
        } else {
            str_printf(out, "%6.3g ", (double)row->weight[i]);
        }
        str_printf(out, "%s\"", colour);
        add_text(&text, colour, true, false, out);
        str_printf(out, "\"%s\n", colour[0] == '\0' ? "" : reset);
    }
    str_deinit(&text);
}

/* The colours explain themselves by being used. */
void row_show_legend(bool has_colour, struct str *out)
{
    if (has_colour) {
        str_printf(out, "%scarries loss%s, %sturn mark%s, %scut off%s\n",
                   looks[KIND_LOSS].colour, reset, looks[KIND_MARK].colour, reset,
                   looks[KIND_CUT].colour, reset);
    } else {
        str_add(out, "[[...]] carries loss, ((...)) is cut off\n");
    }
}
