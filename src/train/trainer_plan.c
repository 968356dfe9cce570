/*
 * trainer_plan - what a dry run tells: parameters, memory by purpose, work, and what each
 * row of the data becomes.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/job_params.h"
#include "train/machine.h"
#include "train/trainer_parts.h"

/* Rows of each file whose fate is told one by one. */
enum { MAX_TOLD_ROWS = 8 };

/* Share of the peak of matrix products that steps are expected to reach. Measured: 73 to
 * 89 % for the 270M shape (docs/results), about 50 % for the demo's small model, 30 % for
 * adapters on it: a guess in the middle, which is told as one. */
static const double EXPECTED_SHARE = 0.6;

/* "268,098,176" into text. */
static const char *with_commas(char text[40], int64_t n)
{
    char digits[24];
    const int length = snprintf(digits, sizeof(digits), "%lld", (long long)n);
    int at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') {
            text[at++] = ',';
        }
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

static void print_parameters(const struct job *job, struct str *out)
{
    const struct params *params = job->source.params;
    char text[40];
    str_printf(out, "Parameters\n");
    str_printf(out, "  %-20s %15s\n", "model", with_commas(text, params->n_elements));
    if (params->n_adapter_elements > 0) {
        str_printf(out, "  %-20s %15s\n", "adapters",
                   with_commas(text, params->n_adapter_elements));
    }
    str_printf(out, "  %-20s %15s  (%.3g %%)\n", "trained",
               with_commas(text, job->n_trained),
               100.0 * (double)job->n_trained /
                   (double)(params->n_elements + params->n_adapter_elements));
}

static void print_bytes(const char *what, size_t bytes, const char *note,
                        struct str *out)
{
    char text[24];
    str_printf(out, "  %-20s %15s  %s\n", what, str_format_bytes(text, (double)bytes),
               note);
}

/* Gradients and moments as they are kept; what is left of the state are weights. */
static void print_memory(const struct job *job, struct str *out)
{
    const struct params *params = job->source.params;
    size_t gradients = 0;
    size_t moments = 0;
    for (int i = 0; i < params->n; i++) {
        const size_t n = job->is_trainable[i] ? (size_t)params->info[i].n_elements : 0;
        gradients += n * sizeof(float);
        moments += 2 * n * dtype_bytes(job->stored[i]);
    }
    const size_t state = job_params_state_bytes(job);
    const size_t data =
        (size_t)(job->train.counts.n_tokens + job->eval.counts.n_tokens) *
        (sizeof(int32_t) + sizeof(float));
    str_printf(out, "Memory\n");
    print_bytes("weights", state - gradients - moments, "in memory", out);
    print_bytes("gradients", gradients, "f32 sums", out);
    print_bytes("moments", moments, "two for each trained number", out);
    print_bytes("activations", job->working_bytes,
                job->recomputes ? "working memory of a pass, with recomputation"
                                : "working memory of a pass",
                out);
    print_bytes("planned", job->plan_bytes, "the sum, which memory_limit is about",
                out);
    print_bytes("data", data, "besides: tokens and their weights, mapped if many", out);
    /* Single numbers of a layer are not worth a line. */
    if (job_params_mapped_bytes(job) > (size_t)1 << 20) {
        print_bytes("weights, mapped", job_params_mapped_bytes(job),
                    "besides: read in the model's file, the system may drop them", out);
    }
}

/* What the whole run reads. An epoch's pairs of tokens and keys are those of the
 * examples; runs take as many of them as of the tokens. */
static struct flops_counts count_run(const struct job *job)
{
    const int64_t window = job->source.config.window;
    struct flops_counts epoch = {0};
    for (size_t i = 0; i < job->train.n; i++) {
        const struct flops_counts row = flops_row(job->train.lengths[i], window);
        epoch.tokens += row.tokens;
        epoch.pairs += row.pairs;
        epoch.pairs_sliding += row.pairs_sliding;
        epoch.targets += (double)job->train.target_counts[i];
    }
    double share = (double)job->n_epochs;
    if (!job->has_estimated_steps) {
        const struct loader_options loading = trainer_job_loading(job);
        const struct loader_summary summary =
            loader_measure(&job->train, &loading, job->settings->train.epochs,
                           job->settings->train.steps);
        share = (double)summary.n_real_tokens / epoch.tokens;
    } else if (job->n_epochs == 0) {
        share = (double)job->n_steps * (double)job->batch_rows / (double)job->train.n;
    }
    return (struct flops_counts){.tokens = share * epoch.tokens,
                                 .targets = share * epoch.targets,
                                 .pairs = share * epoch.pairs,
                                 .pairs_sliding = share * epoch.pairs_sliding};
}

/* By the peak that was measured here, now if there was none. */
static void print_time(const struct job *job, double flops, struct str *out)
{
    double peak = machine_peak_gflops(backend_describe(job->engine));
    const bool is_known = peak > 0.0;
    if (!is_known) {
        peak = backend_measure_gemm_gflops(job->engine);
    }
    char text[24];
    clock_format_duration(text, flops / (peak * 1e9 * EXPECTED_SHARE));
    str_printf(
        out,
        "  %-20s %15s  if steps reach %.0f %% of this machine's %.0f GFLOP/s "
        "(%s);\n  %-20s %15s  runs so far reached 30 (small models, LoRA) to 90 %%\n",
        "time", text, 100.0 * EXPECTED_SHARE, peak,
        is_known ? "the best that lathe doctor measured" : "measured just now", "", "");
}

static void print_work(const struct job *job, struct str *out)
{
    const struct flops_counts counts = count_run(job);
    const double flops = flops_training(&job->source.config, job->source.params,
                                        job->is_trainable, &counts);
    char text[40];
    str_printf(out, "Work\n");
    str_printf(out, "  %-20s %15s  of %d row%s of %lld token%s, %d row%s a pass%s\n",
               "steps", with_commas(text, job->n_steps), (int)job->batch_rows,
               str_plural(job->batch_rows), (long long)job->settings->data.row_tokens,
               str_plural(job->settings->data.row_tokens), (int)job->micro_rows,
               str_plural(job->micro_rows),
               job->has_estimated_steps ? "; estimated" : "");
    str_printf(out, "  %-20s %15s  ", "tokens",
               with_commas(text, (int64_t)counts.tokens));
    str_printf(out, "%s of them with loss\n",
               with_commas(text, (int64_t)counts.targets));
    str_printf(out, "  %-20s %15.4g  forward and backward, a mean\n", "FLOPs a token",
               flops / counts.tokens);
    str_printf(out, "  %-20s %15.4g\n", "FLOPs of the run", flops);
    print_time(job, flops, out);
}

/* The examples that the row of example *at has become, as one line; *at moves behind
 * them. Rows that became none are left out here: the counts say why. */
static void print_row(const struct job *job, const struct records *records, size_t end,
                      size_t *at, struct str *out)
{
    const int64_t row = records_example(records, *at).source_row;
    int32_t n_parts = 0;
    int64_t n_tokens = 0;
    int64_t n_targets = 0;
    int32_t longest = 0;
    for (; *at < end; (*at)++) {
        const struct example example = records_example(records, *at);
        if (example.source_row != row) {
            break;
        }
        n_parts++;
        n_tokens += example.n;
        n_targets += example.n_targets;
        longest = (int32_t)base_max(longest, example.n);
    }
    str_printf(out, "    row %-6lld", (long long)row + 1);
    str_printf(out, " %6lld token%s, %lld with loss", (long long)n_tokens,
               str_plural(n_tokens), (long long)n_targets);
    if (n_parts > 1) {
        str_printf(out, ", in %d parts", (int)n_parts);
    } else if (longest == job->settings->data.row_tokens) {
        str_printf(out, ", a full row: what is longer was cut");
    }
    str_printf(out, "\n");
}

/* What the counts of a file say beyond rows and examples. */
static void print_counts(const struct records_counts *counts, struct str *out)
{
    const struct {
        int64_t n;
        const char *what;
    } fates[] = {
        {counts->n_bad, "broken, left out"},
        {counts->n_truncated, "cut to row_tokens"},
        {counts->n_too_long, "too long, left out"},
        {counts->n_split, "continued in further examples"},
        {counts->n_dropped, "without a token to learn, left out"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(fates); i++) {
        if (fates[i].n > 0) {
            str_printf(out, "    %lld %s\n", (long long)fates[i].n, fates[i].what);
        }
    }
}

static void print_rows(const struct job *job, const struct records *records,
                       struct str *out)
{
    for (int32_t s = 0; s < records->n_sources; s++) {
        const struct records_source *source = &records->sources[s];
        char rows[40];
        char examples[40];
        char targets[40];
        char tokens[40];
        str_printf(
            out, "  %s\n    %s row%s -> %s example%s, %s token%s, %s with loss\n",
            source->name, with_commas(rows, source->counts.n_rows),
            str_plural(source->counts.n_rows),
            with_commas(examples, (int64_t)source->n), str_plural((int64_t)source->n),
            with_commas(tokens, source->counts.n_tokens),
            str_plural(source->counts.n_tokens),
            with_commas(targets, source->counts.n_targets));
        print_counts(&source->counts, out);
        const size_t end = source->first + source->n;
        size_t at = source->first;
        for (int told = 0; told < MAX_TOLD_ROWS && at < end; told++) {
            print_row(job, records, end, &at, out);
        }
        if (at < end) {
            str_printf(out, "    ...\n");
        }
    }
}

static void print_plan(const struct job *job, struct str *out)
{
    print_parameters(job, out);
    print_memory(job, out);
    print_work(job, out);
    str_printf(out, "Training rows\n");
    print_rows(job, &job->train, out);
    if (job->has_eval) {
        str_printf(out, "Held-out rows\n");
        print_rows(job, &job->eval, out);
    }
}

/* On standard output it is what was asked for; a library's output is not ours. */
void trainer_plan_tell(const struct job *job)
{
    struct str out = {0};
    print_plan(job, &out);
    if (!job->options->is_quiet) {
        fputs(str_text(&out), stdout);
        fflush(stdout);
        str_deinit(&out);
        return;
    }
    for (const char *line = str_text(&out); *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        log_note("%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
    str_deinit(&out);
}
