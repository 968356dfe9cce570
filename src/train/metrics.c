/*
 * metrics - see the header. Three rates, so that padding never passes for work: loss
 * tokens, real tokens, and slots.
 */
#include "train/metrics.h"

#include <math.h>

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
    if (metrics->is_skipped) {
        str_add(out, "\"skipped\": true, ");
    }
    if (isfinite(metrics->mfu)) {
        str_printf(out, "\"mfu\": %.4g}\n", metrics->mfu);
    } else {
        str_add(out, "\"mfu\": null}\n");
    }
}
