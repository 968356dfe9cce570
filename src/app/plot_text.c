/*
 * plot_text - curves with characters.
 *
 * A braille character is two dots wide and four high (U+2800 and one bit per dot), so lines
 * get eight times the resolution of letters. Where dots cannot be told apart (several runs
 * without colour) or do not exist (no UTF-8), every run has a mark of its own instead.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/plot.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    GUTTER = 10,    /* columns left of the panel: a number and the axis */
    MIN_WIDTH = 20, /* of the panel */
    MAX_WIDTH = 160,
    N_COLOURS = 6,
};

static const char line_marks[] = "*+x#%@=&";

/* One character of the panel. */
struct cell {
    unsigned char dots; /* braille bits */
    char mark;          /* 0 = none; 'o' is a held-out loss */
    signed char run;    /* whose it is: the last one drawn; -1 = empty */
};

struct canvas {
    struct cell *cells; /* [rows * columns] */
    int columns, rows;
    bool is_braille;
    struct plot_axis x, y;
    const struct plot *plot;
};

static const int panel_rows[PLOT_PANEL_COUNT] = {14, 5, 5};

/* ---- drawing ---- */

static struct cell *cell_at(struct canvas *canvas, int column, int row)
{
    ASSERT(column >= 0 && column < canvas->columns && row >= 0 && row < canvas->rows);
    return &canvas->cells[row * canvas->columns + column];
}

/* 0 .. n - 1 for a value of the axis. */
static int place(const struct plot_axis *axis, double value, int n)
{
    const double share = (value - axis->low) / (axis->high - axis->low);
    return (int)base_max(0, base_min(n - 1, (int64_t)(share * n)));
}

/* Dot (x, y) counts from the left and from the bottom. */
static void set_dot(struct canvas *canvas, int x, int y, int run)
{
    /* Bits of a braille character, [dot row from above][column]. */
    static const unsigned char bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int per_column = canvas->is_braille ? 2 : 1;
    const int per_row = canvas->is_braille ? 4 : 1;
    const int from_above = canvas->rows * per_row - 1 - y;
    struct cell *cell = cell_at(canvas, x / per_column, from_above / per_row);
    cell->run = (signed char)run;
    if (canvas->is_braille) {
        cell->dots |= bits[from_above % 4][x % 2];
    } else {
        cell->mark = line_marks[run % (int)(sizeof(line_marks) - 1)];
    }
}

/* All dots of a line, by equal steps along its longer side. */
static void draw_line(struct canvas *canvas, int x0, int y0, int x1, int y1, int run)
{
    const int n = (int)base_max(abs(x1 - x0), abs(y1 - y0));
    for (int i = 0; i <= n; i++) {
        const double share = n == 0 ? 0.0 : (double)i / n;
        set_dot(canvas, (int)lround(x0 + share * (x1 - x0)),
                (int)lround(y0 + share * (y1 - y0)), run);
    }
}

static void draw_curve(struct canvas *canvas, const struct plot_series *series)
{
    const int width = canvas->columns * (canvas->is_braille ? 2 : 1);
    const int height = canvas->rows * (canvas->is_braille ? 4 : 1);
    int last_x = 0;
    int last_y = 0;
    for (size_t i = 0; i < series->n; i++) {
        const int x = place(&canvas->x, series->x[i], width);
        const int y = place(&canvas->y, series->y[i], height);
        draw_line(canvas, i == 0 ? x : last_x, i == 0 ? y : last_y, x, y, series->run);
        last_x = x;
        last_y = y;
    }
}

/* Letters tell the runs apart where colours do not. */
static char marker_of(const struct canvas *canvas, int run)
{
    return canvas->is_braille || canvas->plot->n_runs == 1 ? 'o' : (char)('a' + run);
}

static void draw_markers(struct canvas *canvas, const struct plot_series *series)
{
    for (size_t i = 0; i < series->n; i++) {
        struct cell *cell =
            cell_at(canvas, place(&canvas->x, series->x[i], canvas->columns),
                    canvas->rows - 1 - place(&canvas->y, series->y[i], canvas->rows));
        cell->mark = marker_of(canvas, series->run);
        cell->run = (signed char)series->run;
    }
}

/* Lines first, so that markers stay visible. */
static void draw_panel(struct canvas *canvas, enum plot_panel panel)
{
    const struct plot *plot = canvas->plot;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < plot->n_series[panel]; i++) {
            const struct plot_series *series = &plot->series[panel][i];
            if (pass == 0 && !series->is_markers) {
                draw_curve(canvas, series);
            } else if (pass == 1 && series->is_markers) {
                draw_markers(canvas, series);
            }
        }
    }
}

/* ---- printing ---- */

/* Colours that are readable on light and on dark ground. */
static void set_colour(struct str *out, const struct plot_text_style *style, int run)
{
    static const int colours[N_COLOURS] = {36, 33, 35, 32, 34, 31};
    if (style->has_colour && run >= 0) {
        str_printf(out, "\033[%dm", colours[run % N_COLOURS]);
    } else if (style->has_colour) {
        str_add(out, "\033[0m");
    }
}

/* U+2800 + dots in UTF-8. */
static void add_braille(struct str *out, unsigned char dots)
{
    str_add_char(out, (char)0xE2);
    str_add_char(out, (char)(0xA0 | (dots >> 6)));
    str_add_char(out, (char)(0x80 | (dots & 0x3F)));
}

static void print_cell(struct str *out, const struct canvas *canvas,
                       const struct cell *cell)
{
    if (cell->mark == 'o' && canvas->is_braille) {
        str_add(out, "\xe2\x97\x8f"); /* a filled circle */
    } else if (cell->mark != 0) {
        str_add_char(out, cell->mark);
    } else if (cell->dots != 0) {
        add_braille(out, cell->dots);
    } else {
        str_add_char(out, ' ');
    }
}

/* The number of the tick in this row, if there is one, and the axis. */
static void print_gutter(struct str *out, const struct canvas *canvas,
                         const struct plot_text_style *style, int row)
{
    char number[32] = "";
    for (int i = 0; i < canvas->y.n_ticks; i++) {
        const double tick = plot_axis_tick(&canvas->y, i);
        if (canvas->rows - 1 - place(&canvas->y, tick, canvas->rows) == row) {
            plot_axis_format(number, &canvas->y, tick);
        }
    }
    str_printf(out, "%*s ", GUTTER - 2, number);
    if (style->has_utf8) {
        str_add(out, number[0] != '\0' ? "\xe2\x94\xa4" : "\xe2\x94\x82");
    } else {
        str_add_char(out, number[0] != '\0' ? '+' : '|');
    }
}

/* Blanks at the end of a row are left out; a colour is set where it changes. */
static void print_row(struct str *out, struct canvas *canvas,
                      const struct plot_text_style *style, int row)
{
    int end = canvas->columns;
    while (end > 0 && cell_at(canvas, end - 1, row)->run < 0) {
        end--;
    }
    int colour = -1;
    print_gutter(out, canvas, style, row);
    for (int column = 0; column < end; column++) {
        const struct cell *cell = cell_at(canvas, column, row);
        if (cell->run >= 0 && cell->run != colour) {
            set_colour(out, style, cell->run);
            colour = cell->run;
        }
        print_cell(out, canvas, cell);
    }
    if (colour >= 0) {
        set_colour(out, style, -1);
    }
    str_add_char(out, '\n');
}

/* The axis below the last panel: a line, and numbers where they have room. */
static void print_steps(struct str *out, const struct canvas *canvas,
                        const struct plot_text_style *style)
{
    struct str numbers = {0};
    str_printf(out, "%*s%s", GUTTER - 1, "", style->has_utf8 ? "\xe2\x94\x94" : "+");
    for (int i = 0; i < canvas->columns; i++) {
        str_add(out, style->has_utf8 ? "\xe2\x94\x80" : "-");
    }
    str_add_char(out, '\n');
    for (int i = 0; i < canvas->x.n_ticks; i++) {
        char number[32];
        const double tick = plot_axis_tick(&canvas->x, i);
        plot_axis_format(number, &canvas->x, tick);
        const int at = GUTTER + place(&canvas->x, tick, canvas->columns);
        const int blanks = at - (int)numbers.length;
        const int end = at + (int)strlen(number);
        if ((i == 0 || blanks > 0) && end <= GUTTER + canvas->columns) {
            str_printf(&numbers, "%*s%s", (int)base_max(0, blanks), "", number);
        }
    }
    const bool has_room = (int)numbers.length + 6 <= GUTTER + canvas->columns;
    str_printf(out, "%s%s\n", str_text(&numbers), has_room ? "  step" : "");
    str_deinit(&numbers);
}

/* The last and the best point of a series of held-out losses. */
static void print_held_out(struct str *out, const struct plot_series *series)
{
    size_t best = 0;
    for (size_t i = 0; i < series->n; i++) {
        best = series->y[i] < series->y[best] ? i : best;
    }
    str_printf(out, " held-out loss %.5g, best %.5g at step %.10g\n",
               series->y[series->n - 1], series->y[best], series->x[best]);
}

/* For each run its mark, its name, where its curve begins and ends; then the same of its
 * held-out losses. */
static void print_legend(struct str *out, const struct canvas *canvas,
                         const struct plot_text_style *style)
{
    const struct plot *plot = canvas->plot;
    for (int run = 0; run < plot->n_runs; run++) {
        const struct plot_series *loss = NULL;
        const struct plot_series *held_out = NULL;
        for (int i = 0; i < plot->n_series[PLOT_LOSS]; i++) {
            const struct plot_series *series = &plot->series[PLOT_LOSS][i];
            if (series->run == run && series->n > 0) {
                *(series->is_markers ? &held_out : &loss) = series;
            }
        }
        set_colour(out, style, run);
        if (canvas->is_braille) {
            str_add(out, "\xe2\x94\x80\xe2\x94\x80");
        } else {
            const char mark = line_marks[run % (int)(sizeof(line_marks) - 1)];
            str_printf(out, "%c%c", mark, mark);
        }
        set_colour(out, style, -1);
        str_printf(out, " %s", plot->names[run]);
        if (loss != NULL) {
            str_printf(out, ": loss %.5g -> %.5g", loss->y[0], loss->y[loss->n - 1]);
        }
        if (plot->smoothing[run] > 1) {
            str_printf(out, " (means of %d steps)", plot->smoothing[run]);
        }
        str_add_char(out, '\n');
        if (held_out != NULL) {
            str_add(out, " ");
            set_colour(out, style, run);
            print_cell(out, canvas, &(struct cell){.mark = marker_of(canvas, run)});
            set_colour(out, style, -1);
            print_held_out(out, held_out);
        }
    }
}

void plot_text_print(const struct plot *plot, const struct plot_text_style *style,
                     struct str *out)
{
    struct canvas canvas = {
        .plot = plot,
        .columns =
            (int)base_max(MIN_WIDTH, base_min(MAX_WIDTH, style->width - GUTTER - 1)),
        .is_braille = style->has_utf8 && (style->has_colour || plot->n_runs == 1),
    };
    canvas.x = plot_axis_x(plot, (int)base_max(2, canvas.columns / 12));
    for (int panel = 0; panel < PLOT_PANEL_COUNT; panel++) {
        canvas.rows = panel_rows[panel];
        canvas.y = plot_axis_y(plot, (enum plot_panel)panel,
                               (int)base_max(2, canvas.rows / 3));
        const size_t n = (size_t)canvas.rows * (size_t)canvas.columns;
        canvas.cells = mem_alloc_array(n, sizeof(struct cell));
        for (size_t i = 0; i < n; i++) {
            canvas.cells[i].run = -1;
        }
        draw_panel(&canvas, (enum plot_panel)panel);
        str_printf(out, "%s\n", plot_title((enum plot_panel)panel));
        for (int row = 0; row < canvas.rows; row++) {
            print_row(out, &canvas, style, row);
        }
        mem_free(canvas.cells);
    }
    print_steps(out, &canvas, style);
    print_legend(out, &canvas, style);
}
