/*
 * cmd_plot - lathe plot RUN...: loss, rate and speed curves, in the terminal or as SVG.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/plot.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/metrics_read.h"
#include "train/run_folder.h"

/* What the command line gives. */
struct plot_arguments {
    const char *svg, *csv; /* files to write; NULL: not asked for */
    const char *smooth;
    bool wants_help;
    int smoothing; /* 0: chosen */
};

/* RUN/metrics.jsonl, or RUN itself where it is a file. Freed with mem_free. */
static char *find_metrics(const char *run, struct error *err)
{
    if (!file_exists(run)) {
        error_set(err, ERROR_NOT_FOUND, "%s: no such run folder", run);
        return NULL;
    }
    if (!file_is_folder(run)) {
        return mem_strdup(run);
    }
    char *path = file_join(run, "metrics.jsonl");
    if (!file_exists(path)) {
        error_set(err, ERROR_DATA, "%s: not a run folder (no metrics.jsonl in it)",
                  run);
        mem_free(path);
        return NULL;
    }
    return path;
}

/* A run that has not made a step yet is no mistake of the caller's, but there is nothing
 * to draw. */
static bool read_run(const char *run, struct metrics_curves *curves, struct error *err)
{
    char *path = find_metrics(run, err);
    bool done = path != NULL && metrics_read_file(curves, path, err);
    if (done && curves->n_broken > 0) {
        log_warning("%s: %zu lines are not JSON and were left out", path,
                    curves->n_broken);
    }
    if (done && curves->n == 0) {
        done =
            error_set(err, curves->n_broken > 0 ? ERROR_DATA : ERROR_FAILED,
                      "%s: no step in it%s", path, curves->n_broken > 0 ? "" : " yet");
        metrics_read_deinit(curves);
    }
    mem_free(path);
    return done;
}

/* The width of the terminal, as it says or as COLUMNS does; 80 where nothing does. */
static int find_width(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    const char *columns = getenv("COLUMNS");
    const long width = columns == NULL ? 0 : strtol(columns, NULL, 10);
    return width > 0 && width < 10000 ? (int)width : 80;
}

/* By the variables that every program goes by, the first that is set. */
static bool has_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            return strcasestr(value, "utf-8") != NULL ||
                   strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

/* On a terminal, unless somebody asked for none (no-color.org). */
static bool has_colour(void)
{
    const char *none = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) == 1 && (none == NULL || none[0] == '\0');
}

static bool parse_smoothing(struct plot_arguments *given, struct error *err)
{
    if (given->smooth == NULL) {
        return true;
    }
    char *end;
    errno = 0;
    const long steps = strtol(given->smooth, &end, 10);
    if (errno != 0 || end == given->smooth || *end != '\0' || steps < 1 ||
        steps > 1000000) {
        return error_set(err, ERROR_USAGE,
                         "--smooth %s: expected a number of steps from 1 on",
                         given->smooth);
    }
    given->smoothing = (int)steps;
    return true;
}

static bool write_csv(const char *path, const char *run, int smoothing,
                      struct error *err)
{
    struct metrics_curves curves;
    if (!read_run(run, &curves, err)) {
        return false;
    }
    struct str text = {0};
    plot_csv_print(&curves, smoothing, &text);
    const bool done = file_write_atomic(path, text.text, text.length, err);
    str_deinit(&text);
    metrics_read_deinit(&curves);
    return done;
}

/* To the terminal unless a file is asked for. */
static bool show(const struct plot *plot, const struct plot_arguments *given,
                 struct error *err)
{
    struct str text = {0};
    bool done = true;
    if (given->svg != NULL) {
        plot_svg_print(plot, &text);
        done = file_write_atomic(given->svg, text.text, text.length, err);
    } else if (given->csv == NULL) {
        const struct plot_text_style style = {
            .width = find_width(), .has_utf8 = has_utf8(), .has_colour = has_colour()};
        plot_text_print(plot, &style, &text);
        fputs(text.text, stdout);
    }
    str_deinit(&text);
    return done;
}

/* Neither file may be one of a run that is drawn. */
static bool check_outputs(const struct plot_arguments *given,
                          const struct arguments *runs, struct error *err)
{
    bool done = true;
    for (int i = 0; i < runs->n && done; i++) {
        const char *run = runs->items[i];
        done = (given->svg == NULL ||
                run_folder_check_output(run, "--svg", given->svg, err)) &&
               (given->csv == NULL ||
                run_folder_check_output(run, "--csv", given->csv, err));
    }
    return done;
}

bool cmd_plot(const struct command *command, int argc, char *const *argv,
              struct error *err)
{
    struct plot_arguments given = {0};
    const struct argument_option options[] = {
        {"--svg", "FILE", ARGUMENT_TEXT, &given.svg,
         "write a picture instead of drawing in the terminal"},
        {"--csv", "FILE", ARGUMENT_TEXT, &given.csv,
         "write the curves of one run as a table: a row for each step, or, with "
         "--smooth, for so many"},
        {"--smooth", "STEPS", ARGUMENT_TEXT, &given.smooth,
         "steps that a point is the mean of; without it curves choose by their "
         "number, 1 shows each"},
        {"--help", NULL, ARGUMENT_SWITCH, &given.wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &given.wants_help, &arguments,
                       err)) {
        return false;
    }
    if (given.wants_help) {
        return true;
    }
    if (arguments.n < 1 || arguments.n > PLOT_MAX_RUNS) {
        return command_usage_error(command, "expected 1 to 16 runs", err);
    }
    if (given.csv != NULL && arguments.n != 1) {
        return command_usage_error(command, "--csv takes one run", err);
    }
    if (!parse_smoothing(&given, err) || !check_outputs(&given, &arguments, err) ||
        (given.csv != NULL &&
         !write_csv(given.csv, arguments.items[0], given.smoothing, err))) {
        return false;
    }
    struct plot plot = {0};
    bool done = true;
    for (int i = 0; i < arguments.n && done; i++) {
        struct metrics_curves curves;
        done = read_run(arguments.items[i], &curves, err);
        if (done) {
            plot_add_run(&plot, arguments.items[i], &curves, given.smoothing);
            metrics_read_deinit(&curves);
        }
    }
    done = done && show(&plot, &given, err);
    plot_deinit(&plot);
    return done;
}
