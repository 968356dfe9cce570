/*
 * doctor_print - what doctor.c found, for people and as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "app/doctor.h"
#include "base/json_write.h"
#include "lathe/common.h"

/* One line: "processor    AMD EPYC ...". */
static void begin_line(struct str *out, const char *label)
{
    str_printf(out, "%-12s ", label);
}

static void print_processor(const struct doctor *doctor, struct str *out)
{
    begin_line(out, "processor");
    str_printf(out, "%s\n", doctor->processor);
    if (doctor->features[0] != '\0') {
        begin_line(out, "");
        str_printf(out, "%s\n", doctor->features);
    }
    begin_line(out, "threads");
    str_printf(out, "%d of %d processors can be used", doctor->n_usable,
               doctor->n_processors);
    if (doctor->cpu_limit > 0.0) {
        str_printf(out, ", the container grants %.1f", doctor->cpu_limit);
    }
    str_add_char(out, '\n');
}

static void print_memory(const struct doctor *doctor, struct str *out)
{
    char text[24];
    begin_line(out, "memory");
    if (doctor->machine_bytes > 0) {
        str_printf(out, "%s", str_format_bytes(text, (double)doctor->machine_bytes));
    } else {
        str_add(out, "unknown");
    }
    if (doctor->available_bytes > 0) {
        str_printf(out, ", %s free",
                   str_format_bytes(text, (double)doctor->available_bytes));
    }
    if (doctor->limit_bytes < doctor->machine_bytes) {
        str_printf(out, ", this process may use %s",
                   str_format_bytes(text, (double)doctor->limit_bytes));
    }
    if (doctor->gbytes_per_s > 0.0) {
        str_printf(out, "; %.1f GB/s", doctor->gbytes_per_s);
    }
    str_add_char(out, '\n');
    begin_line(out, "disk");
    if (doctor->disk_bytes >= 0.0) {
        str_printf(out, "%s free in this folder\n",
                   str_format_bytes(text, doctor->disk_bytes));
    } else {
        str_add(out, "unknown\n");
    }
}

static void print_engine(const struct doctor *doctor, struct str *out)
{
    begin_line(out, "engine");
    str_printf(out, "%s\n", doctor->engine[0] != '\0' ? doctor->engine : "none");
    if (doctor->gflops > 0.0) {
        begin_line(out, "products");
        str_printf(out, "%.0f GFLOP/s in f32", doctor->gflops);
        if (doctor->former_gflops > 0.0) {
            str_printf(out, " (%.0f before)", doctor->former_gflops);
        }
        str_printf(out, "%s\n",
                   doctor->is_kept ? "; kept: training reports its share of the peak"
                                   : "");
    }
}

static void print_libraries(const struct doctor *doctor, struct str *out)
{
    for (int i = 0; i < doctor->n_libraries; i++) {
        const struct libraries_row *row = &doctor->libraries[i];
        begin_line(out, i == 0 ? "libraries" : "");
        str_printf(out, "%-9s ", row->name);
        if (row->version[0] != '\0') {
            str_printf(out, "%s: %s\n", row->version, row->purpose);
        } else {
            str_printf(out, "not in this build: %s\n", row->absence);
        }
    }
}

/* Bounds above this are those of kernels in bf16. */
static const double bf16_bound = 1e-4;

/* Kernels of one engine in one line; those that are wrong are named further down. */
static void print_kernels(const struct doctor *doctor, struct str *out)
{
    for (int i = 0; i < doctor->n_kernels;) {
        const char *engine = doctor->kernels[i].engine;
        const int from = i;
        int n_wrong = 0;
        double worst[2] = {0.0, 0.0}; /* f32, bf16 */
        for (; i < doctor->n_kernels && strcmp(doctor->kernels[i].engine, engine) == 0;
             i++) {
            const struct doctor_kernel *kernel = &doctor->kernels[i];
            double *its = &worst[kernel->bound > bf16_bound];
            *its = kernel->error > *its ? kernel->error : *its;
            n_wrong += !kernel->is_fine;
        }
        begin_line(out, from == 0 ? "kernels" : "");
        str_printf(out, "%-16s %d tested, ", engine, i - from);
        if (n_wrong > 0) {
            str_printf(out, "%d WRONG\n", n_wrong);
            continue;
        }
        str_printf(out, "all as defined (f32 within %.0e", worst[0]);
        if (worst[1] > 0.0) {
            str_printf(out, ", bf16 %.0e", worst[1]);
        }
        str_add(out, ")\n");
    }
}

void doctor_print(const struct doctor *doctor, struct str *out)
{
    begin_line(out, "lathe");
    str_printf(out, "%s\n", LATHE_VERSION_STRING);
    print_processor(doctor, out);
    print_memory(doctor, out);
    print_engine(doctor, out);
    print_libraries(doctor, out);
    print_kernels(doctor, out);
    for (int i = 0; i < doctor->n_warnings; i++) {
        str_printf(out, "warning: %s\n", doctor->warnings[i]);
    }
    for (int i = 0; i < doctor->n_problems; i++) {
        str_printf(out, "WRONG: %s\n", doctor->problems[i]);
    }
    if (doctor->n_problems == 0) {
        str_add(out, "Everything is in order.\n");
    }
}

/* ---- JSON ---- */

static void write_notes(struct json_write *json, const char *key, char *const *notes,
                        int n)
{
    json_write_begin(json, key, '[');
    for (int i = 0; i < n; i++) {
        json_write_string(json, NULL, notes[i]);
    }
    json_write_end(json);
}

/* A size that may be unknown. */
static void write_bytes(struct json_write *json, const char *key, size_t bytes)
{
    if (bytes == 0 || bytes == SIZE_MAX) {
        json_write_null(json, key);
    } else {
        json_write_integer(json, key, (int64_t)bytes);
    }
}

static void write_machine(const struct doctor *doctor, struct json_write *json)
{
    json_write_begin(json, "processor", '{');
    json_write_string(json, "name", doctor->processor);
    json_write_string(json, "features", doctor->features);
    json_write_integer(json, "n_processors", doctor->n_processors);
    json_write_integer(json, "n_usable", doctor->n_usable);
    if (doctor->cpu_limit > 0.0) {
        json_write_number(json, "container_limit", doctor->cpu_limit, 6);
    } else {
        json_write_null(json, "container_limit");
    }
    json_write_end(json);
    json_write_begin(json, "memory", '{');
    write_bytes(json, "machine_bytes", doctor->machine_bytes);
    write_bytes(json, "usable_bytes", doctor->limit_bytes);
    write_bytes(json, "available_bytes", doctor->available_bytes);
    json_write_number(json, "gbytes_per_s", doctor->gbytes_per_s, 6);
    json_write_end(json);
    if (doctor->disk_bytes >= 0.0) {
        json_write_integer(json, "disk_free_bytes", (int64_t)doctor->disk_bytes);
    } else {
        json_write_null(json, "disk_free_bytes");
    }
}

static void write_software(const struct doctor *doctor, struct json_write *json)
{
    json_write_string(json, "engine", doctor->engine);
    json_write_number(json, "f32_gflops", doctor->gflops, 6);
    json_write_bool(json, "peak_kept", doctor->is_kept);
    json_write_begin(json, "libraries", '[');
    for (int i = 0; i < doctor->n_libraries; i++) {
        const struct libraries_row *row = &doctor->libraries[i];
        json_write_begin(json, NULL, '{');
        json_write_string(json, "name", row->name);
        if (row->version[0] != '\0') {
            json_write_string(json, "version", row->version);
        } else {
            json_write_null(json, "version");
        }
        json_write_string(json, "purpose", row->purpose);
        json_write_end(json);
    }
    json_write_end(json);
    json_write_begin(json, "kernels", '[');
    for (int i = 0; i < doctor->n_kernels; i++) {
        const struct doctor_kernel *kernel = &doctor->kernels[i];
        json_write_begin(json, NULL, '{');
        json_write_string(json, "kernel", kernel->kernel);
        json_write_string(json, "engine", kernel->engine);
        json_write_number(json, "error", kernel->error, 3);
        json_write_number(json, "bound", kernel->bound, 3);
        json_write_bool(json, "ok", kernel->is_fine);
        json_write_end(json);
    }
    json_write_end(json);
}

void doctor_print_json(const struct doctor *doctor, struct str *out)
{
    struct json_write json = {.out = out};
    json_write_begin(&json, NULL, '{');
    json_write_string(&json, "version", LATHE_VERSION_STRING);
    json_write_bool(&json, "ok", doctor->n_problems == 0);
    write_notes(&json, "problems", doctor->problems, doctor->n_problems);
    write_notes(&json, "warnings", doctor->warnings, doctor->n_warnings);
    write_machine(doctor, &json);
    write_software(doctor, &json);
    json_write_end(&json);
    str_add_char(out, '\n');
}
