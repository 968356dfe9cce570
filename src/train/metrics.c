/*
 * metrics - see the header. Three rates, so that padding never passes for work: loss
 * tokens, real tokens, and slots.
 */
#include "train/metrics.h"

#include <math.h>
#include <string.h>

double metrics_plain(double value)
{
    return isnan(value) ? (double)NAN : value;
}

double metrics_per_second(int64_t count, double ms)
{
    return ms > 0.0 ? (double)count * 1000.0 / ms : 0.0;
}

/* 17 digits give a double back exactly; rates and times need fewer. */
static void print_number(const char *key, double value, int digits, struct str *out)
{
    if (isfinite(value)) {
        str_printf(out, "\"%s\": %.*g, ", key, digits, value);
    } else {
        str_printf(out, "\"%s\": null, ", key);
    }
}

/* "key": "text", any bytes but those that JSON has no form for. */
static void print_name(const char *name, struct str *out)
{
    str_add_char(out, '"');
    for (const char *c = name; *c != '\0';) {
        const int length = str_utf8_length(c, strlen(c));
        if (length == 0 || (unsigned char)*c < 0x20) {
            str_add_char(out, '?');
        } else {
            str_add(out, *c == '"' || *c == '\\' ? "\\" : "");
            str_add_bytes(out, c, (size_t)length);
        }
        c += length > 0 ? length : 1;
    }
    str_add(out, "\": ");
}

/* Of several files each one's loss, by its name. */
static void print_eval_sources(const struct metrics *metrics, struct str *out)
{
    str_add(out, "\"eval_sources\": {");
    for (int i = 0; i < metrics->n_eval_sources; i++) {
        const struct metrics_source *source = &metrics->eval_sources[i];
        str_add(out, i == 0 ? "" : ", ");
        print_name(source->name, out);
        if (isfinite(source->loss)) {
            str_printf(out, "%.17g", source->loss);
        } else {
            str_add(out, "null");
        }
    }
    str_add(out, "}, ");
}

static void print_groups(const struct metrics *metrics, struct str *out)
{
    str_add(out, "\"groups\": {");
    for (int i = 0; i < metrics->n_groups; i++) {
        const struct metrics_group *group = &metrics->groups[i];
        str_add(out, i == 0 ? "" : ", ");
        print_name(group->name, out);
        str_add_char(out, '{');
        print_number("grad_norm", group->grad_norm, 9, out);
        print_number("update_norm", group->update_norm, 9, out);
        print_number("weight_norm", group->weight_norm, 9, out);
        out->length -= strlen(", "); /* behind the last one */
        str_add_char(out, '}');
    }
    str_add(out, "}, ");
}

/* Keys are in a fixed order, so that lines can be compared as text. */
void metrics_print(const struct metrics *metrics, struct str *out)
{
    const double ms = metrics->step_ms;
    str_printf(out, "{\"step\": %lld, ", (long long)metrics->step);
    print_number("epoch", metrics->epoch, 9, out);
    print_number("loss", metrics->loss, 17, out);
    /* NaN: not evaluated, as most steps; an infinite loss is null. */
    if (!isnan(metrics->eval_loss)) {
        print_number("eval_loss", metrics->eval_loss, 17, out);
    }
    if (metrics->n_eval_sources > 0) {
        print_eval_sources(metrics, out);
    }
    print_number("grad_norm", metrics->grad_norm, 17, out);
    print_number("lr", metrics->lr, 9, out);
    str_printf(out, "\"n_targets\": %lld, ", (long long)metrics->n_targets);
    print_number("loss_tokens_per_s", metrics_per_second(metrics->n_targets, ms), 6,
                 out);
    print_number("real_tokens_per_s", metrics_per_second(metrics->n_real_tokens, ms), 6,
                 out);
    print_number("slots_per_s", metrics_per_second(metrics->n_slots, ms), 6, out);
    print_number("step_ms", ms, 6, out);
    print_number("data_ms", metrics->data_ms, 6, out);
    print_number("compute_ms", metrics->compute_ms, 6, out);
    print_number("update_ms", metrics->update_ms, 6, out);
    str_printf(out, "\"memory_bytes\": %zu, ", metrics->memory_bytes);
    if (metrics->n_groups > 0) {
        print_groups(metrics, out);
    }
    if (metrics->is_skipped) {
        str_add(out, "\"skipped\": true, ");
    }
    if (metrics->is_outlier) {
        str_add(out, "\"outlier\": true, ");
    }
    if (isfinite(metrics->mfu)) {
        str_printf(out, "\"mfu\": %.4g}\n", metrics->mfu);
    } else {
        str_add(out, "\"mfu\": null}\n");
    }
}
