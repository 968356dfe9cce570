/*
 * doctor - finding out. See the header; doctor_print.c writes it down.
 */
#include "app/doctor.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/selftest.h"
#include "base/error.h"
#include "base/mem.h"
#include "train/machine.h"

/* Below these, people get into trouble soon. */
static const double small_memory = 1024.0 * (1 << 20);
static const double small_disk = 2048.0 * (1 << 20);

/* Adds a sentence to one of the two lists. */
PRINTF_LIKE(3, 4)
static void add_note(char **notes, int *n, const char *format, ...)
{
    if (*n == DOCTOR_MAX_NOTES) {
        return;
    }
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    notes[(*n)++] = mem_strdup(text);
}

/* ---- facts ---- */

/* The first line of a small file of the system, or false. */
static bool read_line(const char *path, char *line, size_t capacity)
{
    FILE *file = fopen(path, "re");
    const bool done = file != NULL && fgets(line, (int)capacity, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    return done;
}

/* The quota of a container in processors, 0 without one: cgroup version 2 says "max
 * 100000" or "150000 100000" in one file, version 1 in two. */
static double read_cpu_limit(void)
{
    char line[100];
    double quota = 0.0;
    double period = 0.0;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof(line))) {
        return sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0.0
                   ? quota / period
                   : 0.0;
    }
    if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof(line))) {
        quota = strtod(line, NULL);
    }
    if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof(line))) {
        period = strtod(line, NULL);
    }
    return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

static void look_at_processor(struct doctor *doctor)
{
    machine_processor(doctor->processor);
    machine_features(doctor->features);
    doctor->n_processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t usable;
    doctor->n_usable = sched_getaffinity(0, sizeof(usable), &usable) == 0
                           ? CPU_COUNT(&usable)
                           : doctor->n_processors;
    doctor->cpu_limit = read_cpu_limit();
#if defined(__x86_64__)
    if (strstr(doctor->features, "avx2") == NULL) {
        add_note(doctor->warnings, &doctor->n_warnings,
                 "the processor has no AVX2: kernels run in their plain form, several "
                 "times slower");
    }
#endif
    if (doctor->cpu_limit > 0.0 && doctor->cpu_limit < doctor->n_usable) {
        add_note(doctor->warnings, &doctor->n_warnings,
                 "the container grants %.1f of %d processors: set threads to that "
                 "number, or threads will wait for each other",
                 doctor->cpu_limit, doctor->n_usable);
    }
}

/* "MemAvailable:   123 kB" */
static size_t read_available(void)
{
    char line[200];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %lu kB", &kib) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return (size_t)kib << 10;
}

static void look_at_memory(struct doctor *doctor)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) {
        doctor->machine_bytes = (size_t)pages * (size_t)page_bytes;
    }
    doctor->limit_bytes = mem_machine_bytes();
    doctor->available_bytes = read_available();
    if (doctor->available_bytes > 0 && (double)doctor->available_bytes < small_memory) {
        char text[24];
        add_note(doctor->warnings, &doctor->n_warnings,
                 "%s of memory are free: enough for the demo only",
                 str_format_bytes(text, (double)doctor->available_bytes));
    }
}

static void look_at_disk(struct doctor *doctor)
{
    struct statvfs disk;
    doctor->disk_bytes = -1.0;
    if (statvfs(".", &disk) != 0) {
        return;
    }
    doctor->disk_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    if (doctor->disk_bytes < small_disk) {
        char text[24];
        add_note(
            doctor->warnings, &doctor->n_warnings,
            "%s are free on the disk of this folder: a tuned model takes two bytes "
            "a parameter",
            str_format_bytes(text, doctor->disk_bytes));
    }
}

/* Settings of the libraries that make them slower; they are forgotten in shell profiles
 * and containers. */
static void look_at_environment(struct doctor *doctor)
{
    static const char *const names[] = {"OPENBLAS_CORETYPE", "DNNL_MAX_CPU_ISA",
                                        "ONEDNN_MAX_CPU_ISA"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL) {
            add_note(doctor->warnings, &doctor->n_warnings,
                     "%s=%s is set: it holds the matrix library to that processor, "
                     "which can be slower than this one",
                     names[i], value);
        }
    }
}

/* ---- measurements ---- */

/* The same engine as a run makes. */
static void measure_products(struct doctor *doctor)
{
    struct error err;
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {.isa = BACKEND_ISA_BEST};
    struct engine *engine = backend_create_cpu(&mesh, 0, 1, &options, &err);
    if (engine == NULL) {
        add_note(doctor->problems, &doctor->n_problems, "engine: %s", err.message);
        return;
    }
    snprintf(doctor->engine, sizeof(doctor->engine), "%s", backend_describe(engine));
    doctor->former_gflops = machine_peak_gflops(doctor->engine);
    doctor->gflops = backend_measure_gemm_gflops(engine);
    backend_destroy(engine);
    if (doctor->gflops <= 0.0) {
        add_note(doctor->problems, &doctor->n_problems,
                 "matrix products: no memory to measure them");
        return;
    }
    doctor->is_kept = machine_store_peak(doctor->engine, doctor->gflops, &err);
    if (!doctor->is_kept) {
        add_note(doctor->warnings, &doctor->n_warnings,
                 "the measured peak cannot be kept for later runs: %s", err.message);
    }
}

static void measure_memory(struct doctor *doctor)
{
    struct error err;
    doctor->gbytes_per_s = machine_measure_bandwidth(0, &err);
    if (doctor->gbytes_per_s <= 0.0) {
        add_note(doctor->problems, &doctor->n_problems, "memory: %s", err.message);
    }
}

/* A selftest_report_fn. */
static void note_kernel(void *context, const struct selftest_result *result)
{
    struct doctor *doctor = context;
    ASSERT(doctor->n_kernels < DOCTOR_MAX_KERNELS);
    struct doctor_kernel *kernel = &doctor->kernels[doctor->n_kernels++];
    *kernel = (struct doctor_kernel){.kernel = result->kernel,
                                     .error = result->error,
                                     .bound = result->bound,
                                     .is_fine = result->is_fine};
    snprintf(kernel->engine, sizeof(kernel->engine), "%s", result->engine);
    if (!result->is_fine) {
        doctor->n_wrong_kernels++;
        add_note(doctor->problems, &doctor->n_problems,
                 "kernel %s (%s): differs from its definition by %.1e, bound %.1e; do "
                 "not trust a training on this machine",
                 result->kernel, result->engine, result->error, result->bound);
    }
}

static void test_kernels(struct doctor *doctor, double bound_scale)
{
    struct error err;
    if (!selftest_run(bound_scale, note_kernel, doctor, &err)) {
        add_note(doctor->problems, &doctor->n_problems, "self-test: %s", err.message);
    }
}

void doctor_examine(struct doctor *doctor, double bound_scale)
{
    *doctor = (struct doctor){0};
    look_at_processor(doctor);
    look_at_memory(doctor);
    look_at_disk(doctor);
    look_at_environment(doctor);
    doctor->n_libraries = libraries_list(doctor->libraries);
    measure_products(doctor);
    measure_memory(doctor);
    test_kernels(doctor, bound_scale);
}

void doctor_deinit(struct doctor *doctor)
{
    for (int i = 0; i < doctor->n_problems; i++) {
        mem_free(doctor->problems[i]);
    }
    for (int i = 0; i < doctor->n_warnings; i++) {
        mem_free(doctor->warnings[i]);
    }
}
