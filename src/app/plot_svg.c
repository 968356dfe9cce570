/*
 * plot_svg - curves as one SVG file.
 *
 * Nothing outside the file is needed. Colours are classes: a style sheet inside gives them
 * for light ground and, by prefers-color-scheme, for dark.
 */
#include <math.h>
#include <string.h>

#include "app/plot.h"
#include "base/str.h"

enum {
    WIDTH = 760,
    LEFT = 70,
    RIGHT = 20,
    TOP = 16,
    GAP = 34,
    BOTTOM = 46,
    LEGEND = 18
};

static const int panel_heights[PLOT_PANEL_COUNT] = {260, 80, 80};

/* Where a panel lies and what it shows. */
struct frame {
    struct plot_axis x, y;
    double top, height;
};

/* Light and dark: tested for contrast against their ground, and told apart by people who
 * do not see red and green. */
static const char style_sheet[] =
    "<style>\n"
    "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}\n"
    ".ground{fill:#fff}.grid{stroke:#d8dee4}.axis{stroke:#57606a}\n"
    ".line{fill:none;stroke-width:1.6;stroke-linejoin:round}\n"
    ".r0{color:#0969da}.r1{color:#bc4c00}.r2{color:#8250df}.r3{color:#1a7f37}\n"
    ".r4{color:#bf3989}.r5{color:#57606a}\n"
    ".line{stroke:currentColor}.dot{fill:currentColor}\n"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}\n"
    ".grid{stroke:#30363d}.axis{stroke:#8b949e}.dot{stroke:#0d1117}\n"
    ".r0{color:#58a6ff}.r1{color:#ffa657}.r2{color:#d2a8ff}.r3{color:#56d364}\n"
    ".r4{color:#ff9bce}.r5{color:#b1bac4}}\n"
    "</style>\n";

enum { N_CLASSES = 6 };

static double place_x(const struct frame *frame, double value)
{
    const double share = (value - frame->x.low) / (frame->x.high - frame->x.low);
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct frame *frame, double value)
{
    const double share = (value - frame->y.low) / (frame->y.high - frame->y.low);
    return frame->top + (1.0 - share) * frame->height;
}

/* Names of runs are paths: they may hold what XML gives a meaning to. Bytes that XML has no
 * form for become question marks. */
static void add_escaped(struct str *out, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        const int length = str_utf8_length(at, strnlen(at, 4));
        if (length == 0 || (unsigned char)*at < 0x20) {
            str_add_char(out, '?');
            at++;
            continue;
        }
        if (*at == '&') {
            str_add(out, "&amp;");
        } else if (*at == '<') {
            str_add(out, "&lt;");
        } else {
            str_add_bytes(out, at, (size_t)length);
        }
        at += length;
    }
}

/* Grid and numbers of the left side, title on top. */
static void print_frame(struct str *out, const struct frame *frame, const char *title)
{
    char number[32];
    str_printf(out, "<text class=\"title\" x=\"%d\" y=\"%.0f\">%s</text>\n", LEFT,
               frame->top - 6.0, title);
    for (int i = 0; i < frame->y.n_ticks; i++) {
        const double tick = plot_axis_tick(&frame->y, i);
        const double y = place_y(frame, tick);
        str_printf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y,
                   WIDTH - RIGHT);
        str_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                   LEFT - 8, y + 4.0, plot_axis_format(number, &frame->y, tick));
    }
    str_printf(out, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>\n", LEFT,
               frame->top + frame->height, WIDTH - RIGHT);
}

/* One line as one path; held-out losses as dots, joined by a thin dashed line. */
static void print_series(struct str *out, const struct frame *frame,
                         const struct plot_series *series)
{
    if (series->n == 0) {
        return;
    }
    str_printf(out, "<g class=\"r%d\"><polyline class=\"line\"%s points=\"",
               series->run % N_CLASSES,
               series->is_markers ? " stroke-dasharray=\"3 3\"" : "");
    for (size_t i = 0; i < series->n; i++) {
        str_printf(out, "%s%.1f,%.1f", i == 0 ? "" : " ", place_x(frame, series->x[i]),
                   place_y(frame, series->y[i]));
    }
    str_add(out, "\"/>");
    for (size_t i = 0; i < series->n && series->is_markers; i++) {
        str_printf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>",
                   place_x(frame, series->x[i]), place_y(frame, series->y[i]));
    }
    str_add(out, "</g>\n");
}

/* Numbers of the steps, below the last panel. */
static void print_steps(struct str *out, const struct frame *frame)
{
    const double y = frame->top + frame->height;
    char number[32];
    for (int i = 0; i < frame->x.n_ticks; i++) {
        const double tick = plot_axis_tick(&frame->x, i);
        str_printf(
            out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
            place_x(frame, tick), y + 17.0, plot_axis_format(number, &frame->x, tick));
    }
    str_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n",
               (LEFT + WIDTH - RIGHT) / 2, y + 34.0);
}

static bool has_held_out(const struct plot *plot, int run)
{
    bool has = false;
    for (int i = 0; i < plot->n_series[PLOT_LOSS]; i++) {
        const struct plot_series *series = &plot->series[PLOT_LOSS][i];
        has = has || (series->run == run && series->is_markers && series->n > 0);
    }
    return has;
}

/* A line, and a dot where there are held-out losses, for each run. */
static void print_legend(struct str *out, const struct plot *plot, double y)
{
    for (int run = 0; run < plot->n_runs; run++, y += LEGEND) {
        const bool has_dots = has_held_out(plot, run);
        str_printf(out, "<g class=\"r%d\"><path class=\"line\" d=\"M%d %.1fh24\"/>",
                   run % N_CLASSES, LEFT, y - 4.0);
        if (has_dots) {
            str_printf(out, "<circle class=\"dot\" cx=\"%d\" cy=\"%.1f\" r=\"3.5\"/>",
                       LEFT + 36, y - 4.0);
        }
        str_printf(out, "</g><text x=\"%d\" y=\"%.1f\">", LEFT + (has_dots ? 48 : 32),
                   y);
        add_escaped(out, plot->names[run]);
        str_add(out, ": training");
        if (plot->smoothing[run] > 1) {
            str_printf(out, " (means of %d steps)", plot->smoothing[run]);
        }
        str_printf(out, "%s</text>\n", has_dots ? ", dots: held-out" : "");
    }
}

void plot_svg_print(const struct plot *plot, struct str *out)
{
    int height = TOP + BOTTOM + LEGEND * plot->n_runs;
    for (int panel = 0; panel < PLOT_PANEL_COUNT; panel++) {
        height += GAP + panel_heights[panel];
    }
    str_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "viewBox=\"0 0 %d %d\">\n",
               WIDTH, height, WIDTH, height);
    str_add(out, style_sheet);
    str_printf(out, "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", WIDTH,
               height);
    print_legend(out, plot, TOP + 8.0);
    struct frame frame = {.x = plot_axis_x(plot, 8)};
    double top = TOP + LEGEND * plot->n_runs;
    for (int panel = 0; panel < PLOT_PANEL_COUNT; panel++) {
        frame.top = top + GAP;
        frame.height = panel_heights[panel];
        frame.y = plot_axis_y(plot, (enum plot_panel)panel,
                              (int)base_max(2, panel_heights[panel] / 40));
        print_frame(out, &frame, plot_title((enum plot_panel)panel));
        for (int i = 0; i < plot->n_series[panel]; i++) {
            print_series(out, &frame, &plot->series[panel][i]);
        }
        top = frame.top + frame.height;
    }
    print_steps(out, &frame);
    str_add(out, "</svg>\n");
}
