/*
 * metrics_read - see the header.
 */
#include "train/metrics_read.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

static const char *const keys[METRICS_FIGURE_COUNT] = {
    "step", "epoch", "loss", "eval_loss", "lr", "grad_norm", "real_tokens_per_s",
};

/* One more place in all arrays. */
static void add_place(struct metrics_curves *curves, size_t *capacity)
{
    if (curves->n < *capacity) {
        return;
    }
    const size_t wanted = *capacity == 0 ? 1024 : 2 * *capacity;
    for (int i = 0; i < METRICS_FIGURE_COUNT; i++) {
        curves->values[i] =
            mem_grow_array(curves->values[i], *capacity, wanted, sizeof(double));
    }
    *capacity = wanted;
}

/* False if the line is no object. A line without a step takes the one after the last. */
static bool read_line(struct metrics_curves *curves, const char *line, size_t length,
                      size_t *capacity)
{
    struct error ignored;
    json_t *object = json_parse(line, length, "metrics", &ignored);
    if (!json_is_object(object)) {
        json_decref(object);
        return false;
    }
    add_place(curves, capacity);
    const size_t n = curves->n;
    for (int i = 0; i < METRICS_FIGURE_COUNT; i++) {
        const json_t *value = json_object_get(object, keys[i]);
        curves->values[i][n] =
            json_is_number(value) ? json_number_value(value) : (double)NAN;
    }
    double *steps = curves->values[METRICS_STEP];
    if (!isfinite(steps[n])) {
        steps[n] = n == 0 ? 1.0 : steps[n - 1] + 1.0;
    }
    curves->n++;
    json_decref(object);
    return true;
}

void metrics_read_text(struct metrics_curves *curves, const char *text, size_t length)
{
    size_t capacity = 0;
    *curves = (struct metrics_curves){0};
    for (size_t at = 0; at < length;) {
        const char *line = text + at;
        const char *end = memchr(line, '\n', length - at);
        const size_t n = end == NULL ? length - at : (size_t)(end - line);
        at += n + (end != NULL);
        const bool is_blank = n == 0;
        /* Without a line end it is still being written, unless it happens to be whole. */
        if (!is_blank && !read_line(curves, line, n, &capacity) && end != NULL) {
            curves->n_broken++;
        }
    }
}

/* Mapped, so that the file of a long run costs no memory of its own. */
bool metrics_read_file(struct metrics_curves *curves, const char *path,
                       struct error *err)
{
    struct file_map map = {0};
    *curves = (struct metrics_curves){0};
    if (!file_map_open(&map, path, err)) {
        return false;
    }
    metrics_read_text(curves, (const char *)map.bytes, map.length);
    file_map_close(&map);
    return true;
}

void metrics_read_deinit(struct metrics_curves *curves)
{
    for (int i = 0; i < METRICS_FIGURE_COUNT; i++) {
        mem_free(curves->values[i]);
    }
    *curves = (struct metrics_curves){0};
}
