/*
 * fuzz_metrics - any bytes as metrics.jsonl, then the curves drawn in every way (G9).
 */
#include <math.h>

#include "app/plot.h"
#include "base/str.h"
#include "train/metrics_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Nothing is drawn where there is no step; the command says so instead. */
static void draw(const struct metrics_curves *curves)
{
    static const struct plot_text_style styles[] = {
        {.width = 40}, {.width = 100, .has_utf8 = true, .has_colour = true}};
    struct plot plot = {0};
    plot_add_run(&plot, "a <run> & \"more\"", curves, 0);
    plot_add_run(&plot, "b", curves, 3);
    struct str out = {0};
    for (size_t i = 0; i < ARRAY_LENGTH(styles); i++) {
        plot_text_print(&plot, &styles[i], &out);
    }
    plot_svg_print(&plot, &out);
    plot_csv_print(curves, 0, &out);
    ASSERT(out.length > 0);
    str_deinit(&out);
    plot_deinit(&plot);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct metrics_curves curves;
    metrics_read_text(&curves, (const char *)bytes, length);
    for (size_t i = 0; i < curves.n; i++) {
        ASSERT(!isnan(curves.values[METRICS_STEP][i]));
    }
    if (curves.n > 0) {
        draw(&curves);
    }
    metrics_read_deinit(&curves);
    return 0;
}
