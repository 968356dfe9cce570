/*
 * Curves: ticks, means, what is drawn where; bad figures draw nothing and break nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "app/plot.h"
#include "base/base.h"
#include "base/str.h"
#include "train/metrics_read.h"

static void assert_axis(double low, double high, int max_ticks, double first,
                        double step, int n)
{
    const struct plot_axis axis = plot_axis_make(low, high, max_ticks);
    assert_true(fabs(axis.first - first) < 1e-12 * fabs(step) + 1e-15);
    assert_true(fabs(axis.step - step) < 1e-9 * step);
    assert_int_equal(axis.n_ticks, n);
}

static void ticks_are_round_numbers(void **state)
{
    (void)state;
    assert_axis(0.0, 10.0, 5, 0.0, 2.0, 6);
    assert_axis(0.6, 3.9, 4, 1.0, 1.0, 3);
    assert_axis(0.0, 144.0, 8, 0.0, 20.0, 8);
    assert_axis(0.0, 1e-3, 2, 0.0, 5e-4, 3);
    assert_axis(-1.0, 1.0, 4, -1.0, 0.5, 5);
    /* One value: room on both sides. */
    const struct plot_axis flat = plot_axis_make(3.0, 3.0, 4);
    assert_true(flat.low < 3.0 && flat.high > 3.0 && flat.n_ticks >= 2);
    const struct plot_axis zero = plot_axis_make(0.0, 0.0, 4);
    assert_true(zero.low < 0.0 && zero.high > 0.0);
}

static void assert_format(double low, double high, double value, const char *wanted)
{
    char text[32];
    const struct plot_axis axis = plot_axis_make(low, high, 5);
    assert_string_equal(plot_axis_format(text, &axis, value), wanted);
}

static void numbers_have_the_digits_they_need(void **state)
{
    (void)state;
    assert_format(0.0, 10.0, 4.0, "4");
    assert_format(1.0, 2.0, 1.2, "1.2");
    assert_format(0.0, 2e-5, 2e-5, "2e-05");
    assert_format(0.0, 9000.0, 8000.0, "8000");
    assert_format(0.0, 2e-5, 0.0, "0");
}

/* Curves from text, with a name, into a plot. */
static void add_run(struct plot *plot, const char *name, const char *text,
                    int smoothing)
{
    struct metrics_curves curves;
    metrics_read_text(&curves, text, strlen(text));
    plot_add_run(plot, name, &curves, smoothing);
    metrics_read_deinit(&curves);
}

static const char four_steps[] =
    "{\"step\": 1, \"loss\": 4.0, \"lr\": 1e-5, \"real_tokens_per_s\": 100}\n"
    "{\"step\": 2, \"loss\": 2.0, \"lr\": 2e-5, \"real_tokens_per_s\": 100, "
    "\"eval_loss\": 2.5}\n"
    "{\"step\": 3, \"loss\": null, \"lr\": 2e-5, \"real_tokens_per_s\": 100}\n"
    "{\"step\": 4, \"loss\": 1.0, \"lr\": 1e-5, \"real_tokens_per_s\": 100, "
    "\"eval_loss\": 1.5}\n";

static void lines_are_means_of_steps(void **state)
{
    (void)state;
    struct plot plot = {0};
    add_run(&plot, "a", four_steps, 2);
    const struct plot_series *loss = &plot.series[PLOT_LOSS][0];
    assert_int_equal(loss->n, 2);
    assert_true(loss->x[0] == 1.5 && loss->y[0] == 3.0);
    assert_true(loss->x[1] == 4.0 && loss->y[1] == 1.0); /* the null is in no mean */
    const struct plot_series *held_out = &plot.series[PLOT_LOSS][1];
    assert_true(held_out->is_markers);
    assert_int_equal(held_out->n, 2);
    assert_true(held_out->x[1] == 4.0 && held_out->y[1] == 1.5);
    assert_int_equal(plot.series[PLOT_RATE][0].n, 2);
    plot_deinit(&plot);
}

static void count(const char *text, const char *what, int wanted)
{
    int n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        n++;
    }
    if (n != wanted) {
        fail_msg("%d times '%s', not %d, in\n%s", n, what, wanted, text);
    }
}

/* Rows of at most `width` columns; bytes of UTF-8 that go on do not count. */
static void assert_width(const char *text, int width)
{
    int columns = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\n') {
            columns = 0;
        } else if (((unsigned char)*at & 0xC0) != 0x80) {
            columns++;
        }
        assert_true(columns <= width);
    }
}

static void draws_with_letters(void **state)
{
    (void)state;
    struct plot plot = {0};
    struct str text = {0};
    add_run(&plot, "runs/a", four_steps, 1);
    const struct plot_text_style style = {.width = 100};
    plot_text_print(&plot, &style, &text);
    assert_width(text.text, 100);
    for (const char *at = text.text; *at != '\0'; at++) {
        assert_true((unsigned char)*at < 0x80); /* ASCII only, no escapes */
        assert_true(*at != '\033');
    }
    count(text.text, "learning rate\n", 1);
    count(text.text, "tokens/s\n", 1);
    count(text.text, "runs/a: loss 4 -> 1", 1);
    count(text.text, "held-out loss 1.5, best 1.5 at step 4", 1);
    /* The first loss is in the first row of the panel, the last one in the last. */
    assert_non_null(strstr(text.text, "loss\n"));
    str_clear(&text);
    /* Two runs: each has its marks. */
    add_run(&plot, "runs/b", four_steps, 1);
    plot_text_print(&plot, &style, &text);
    count(text.text, "** runs/a", 1);
    count(text.text, "++ runs/b", 1);
    str_deinit(&text);
    plot_deinit(&plot);
}

static void draws_with_braille_and_colours(void **state)
{
    (void)state;
    struct plot plot = {0};
    struct str text = {0};
    add_run(&plot, "a", four_steps, 1);
    struct plot_text_style style = {.width = 60, .has_utf8 = true};
    plot_text_print(&plot, &style, &text);
    assert_width(text.text, 60);
    assert_non_null(strstr(text.text, "\xe2\xa0"));     /* some braille */
    assert_non_null(strstr(text.text, "\xe2\x97\x8f")); /* a held-out dot */
    assert_null(strchr(text.text, '\033'));
    str_clear(&text);
    add_run(&plot, "b", four_steps, 1);
    style.has_colour = true;
    plot_text_print(&plot, &style, &text);
    assert_non_null(strstr(text.text, "\033[36m"));
    assert_non_null(strstr(text.text, "\033[33m"));
    str_clear(&text);
    /* A terminal of no width at all still gets something. */
    style.width = 0;
    plot_text_print(&plot, &style, &text);
    assert_true(text.length > 100);
    str_deinit(&text);
    plot_deinit(&plot);
}

static void makes_a_picture(void **state)
{
    (void)state;
    struct plot plot = {0};
    struct str text = {0};
    add_run(&plot, "a <b> & c", four_steps, 1);
    add_run(&plot, "d\xff", four_steps, 1);
    plot_svg_print(&plot, &text);
    assert_true(
        str_starts_with(text.text, "<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert_true(str_ends_with(text.text, "</svg>\n"));
    count(text.text, "a &lt;b> &amp; c", 1);
    count(text.text, "d?", 1);
    count(text.text, "<polyline", 8);
    count(text.text, "<circle", 2 * 2 + 2); /* held-out losses and the legend's dots */
    count(text.text, "prefers-color-scheme:dark", 1);
    count(text.text, "http", 1); /* nothing from elsewhere */
    count(text.text, ">step<", 1);
    count(text.text, ">loss<", 1);
    count(text.text, "nan", 0);
    count(text.text, "inf", 0);
    str_deinit(&text);
    plot_deinit(&plot);
}

static void figures_that_are_missing_draw_nothing(void **state)
{
    (void)state;
    static const char *const files[] = {
        "{}\n", "{\"step\": 1, \"loss\": null}\n", "{\"step\": 1, \"loss\": 2}\n",
        "{\"step\": 0, \"loss\": 1e308}\n{\"step\": 1e300, \"loss\": -1e308}\n",
        "{\"step\": -5, \"loss\": 0, \"lr\": 0}\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        struct plot plot = {0};
        struct str text = {0};
        add_run(&plot, "x", files[i], 0);
        const struct plot_text_style style = {.width = 70, .has_utf8 = true};
        plot_text_print(&plot, &style, &text);
        plot_svg_print(&plot, &text);
        count(text.text, "nan", 0);
        str_deinit(&text);
        plot_deinit(&plot);
    }
}

static void tables_have_means(void **state)
{
    (void)state;
    struct metrics_curves curves;
    struct str text = {0};
    metrics_read_text(&curves, four_steps, strlen(four_steps));
    plot_csv_print(&curves, 2, &text);
    assert_string_equal(text.text, "step,epoch,lr,loss,eval_loss,real_tokens_per_s\n"
                                   "2,,2e-05,3,2.5,100\n"
                                   "4,,1e-05,1,1.5,100\n");
    str_clear(&text);
    plot_csv_print(&curves, 0, &text); /* each step as it is */
    assert_string_equal(text.text, "step,epoch,lr,loss,eval_loss,real_tokens_per_s\n"
                                   "1,,1e-05,4,,100\n"
                                   "2,,2e-05,2,2.5,100\n"
                                   "3,,2e-05,,,100\n"
                                   "4,,1e-05,1,1.5,100\n");
    str_deinit(&text);
    metrics_read_deinit(&curves);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round_numbers),
        cmocka_unit_test(numbers_have_the_digits_they_need),
        cmocka_unit_test(lines_are_means_of_steps),
        cmocka_unit_test(draws_with_letters),
        cmocka_unit_test(draws_with_braille_and_colours),
        cmocka_unit_test(makes_a_picture),
        cmocka_unit_test(figures_that_are_missing_draw_nothing),
        cmocka_unit_test(tables_have_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
