/*
 * machine - see the header. The file:
 *
 *     {"peaks": [{"processor": "AMD EPYC ...", "engine": "cpu, 2 threads, avx2, openblas",
 *                 "f32_gflops": 171.3}]}
 */
#include "train/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"

enum {
    MAX_FILE_BYTES = 1 << 20,
    BANDWIDTH_ELEMENTS = 16 << 20, /* of each of three arrays: far beyond caches */
    BANDWIDTH_CHUNK = 1 << 18,
    BANDWIDTH_ROUNDS = 4,
    READING_WORDS = 32 << 20, /* 256 MiB */
    READING_CHUNK = 1 << 20,
    READING_ROUNDS = 10,
    READING_MOST_MS = 1000, /* on a slow machine two rounds have to do */
    READING_LANES = 16,     /* sums at a time: loads need not wait for additions */
};

/* From the system's own description; other architectures have no such line. */
const char *machine_processor(char buffer[100])
{
    static const char key[] = "model name";
    char line[200];
    snprintf(buffer, 100, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon != NULL) {
            const char *name = colon + 1 + strspn(colon + 1, " \t");
            snprintf(buffer, 100, "%.*s", (int)strcspn(name, "\n"), name);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return buffer;
}

/* The line is long: all flags of the processor, between spaces. */
const char *machine_features(char buffer[200])
{
    static const char *const names[] = {
        "avx",      "avx2",     "fma",      "f16c",        "avx512f",
        "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16",
        "amx_bf16", "asimd",    "sve",      "bf16"};
    FILE *file = fopen("/proc/cpuinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    size_t used = 0;
    buffer[0] = '\0';
    while (file != NULL && used == 0 && getline(&line, &capacity, file) > 0) {
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) {
            continue;
        }
        line[strcspn(line, "\n")] = ' ';
        for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
            char word[20];
            snprintf(word, sizeof(word), " %s ", names[i]);
            if (strstr(line, word) != NULL) {
                used += (size_t)snprintf(buffer + used, 200 - used, "%s%s",
                                         used == 0 ? "" : " ", names[i]);
            }
        }
    }
    free(line);
    if (file != NULL) {
        fclose(file);
    }
    return buffer;
}

/* Of this user; NULL where there is no such folder. Freed with mem_free. */
static char *file_path(struct error *err)
{
    char *folder = file_cache_folder(err);
    char *path = folder == NULL ? NULL : file_join(folder, "machine.json");
    mem_free(folder);
    return path;
}

/* The file as it is, or an empty object in place of what cannot be used: figures can be
 * measured again. */
static json_t *read_file(const char *path)
{
    struct error ignored;
    json_t *root = path != NULL && file_exists(path)
                       ? json_read_file(path, MAX_FILE_BYTES, &ignored)
                       : NULL;
    if (!json_is_object(root)) {
        json_decref(root);
        root = json_object();
    }
    return root;
}

/* Whether a row is about this processor and engine. */
static bool is_about(const json_t *row, const char *processor, const char *engine)
{
    const char *its_processor = json_string_value(json_object_get(row, "processor"));
    const char *its_engine = json_string_value(json_object_get(row, "engine"));
    return its_processor != NULL && its_engine != NULL &&
           strcmp(its_processor, processor) == 0 && strcmp(its_engine, engine) == 0;
}

double machine_peak_gflops(const char *engine)
{
    struct error ignored;
    char processor[100];
    char *path = file_path(&ignored);
    json_t *root = read_file(path);
    const json_t *peaks = json_object_get(root, "peaks");
    double gflops = 0.0;
    machine_processor(processor);
    for (size_t i = 0; i < json_array_size(peaks); i++) {
        const json_t *row = json_array_get(peaks, i);
        if (is_about(row, processor, engine)) {
            gflops = json_number_value(json_object_get(row, "f32_gflops"));
        }
    }
    json_decref(root);
    mem_free(path);
    return gflops > 0.0 ? gflops : 0.0;
}

/* Whatever disturbs a measurement makes it smaller, so the largest figure is the nearest.
 * Rows of other machines stay: a home folder may be shared. */
bool machine_store_peak(const char *engine, double gflops, struct error *err)
{
    const double former = machine_peak_gflops(engine);
    char *path = file_path(err);
    if (path == NULL) {
        return false;
    }
    char processor[100];
    machine_processor(processor);
    json_t *root = read_file(path);
    json_t *kept = json_array();
    const json_t *peaks = json_object_get(root, "peaks");
    for (size_t i = 0; i < json_array_size(peaks); i++) {
        json_t *row = json_array_get(peaks, i);
        if (!is_about(row, processor, engine)) {
            json_array_append(kept, row);
        }
    }
    /* The name of the processor is the system's: json_pack refuses what is not UTF-8. */
    json_t *row = json_pack("{s:s, s:s, s:f}", "processor", processor, "engine", engine,
                            "f32_gflops", former > gflops ? former : gflops);
    json_array_append_new(kept, row);
    json_object_set_new(root, "peaks", kept);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(root);
    char *folder = file_cache_folder(err);
    const bool done = row != NULL && text != NULL && folder != NULL &&
                      file_make_folders(folder, err) &&
                      file_write_atomic(path, text, strlen(text), err);
    free(text);
    mem_free(folder);
    mem_free(path);
    return done;
}

/* ---- memory ---- */

struct triad {
    float *a;       /* [BANDWIDTH_ELEMENTS] = b + 3 c */
    const float *b; /* [BANDWIDTH_ELEMENTS] */
    const float *c; /* [BANDWIDTH_ELEMENTS] */
};

/* A pool_task_fn: one chunk. */
static void add_chunk(void *context, int64_t task, int thread)
{
    const struct triad *triad = context;
    (void)thread;
    float *a = triad->a + task * BANDWIDTH_CHUNK;
    const float *b = triad->b + task * BANDWIDTH_CHUNK;
    const float *c = triad->c + task * BANDWIDTH_CHUNK;
    for (int64_t i = 0; i < BANDWIDTH_CHUNK; i++) {
        a[i] = b[i] + 3.0F * c[i];
    }
}

/* The first round also brings the pages in. What disturbs a round makes it slower, so
 * the best one counts. */
double machine_measure_bandwidth(int n_threads, struct error *err)
{
    const size_t n = BANDWIDTH_ELEMENTS;
    struct pool *pool = pool_create(n_threads, err);
    float *memory = pool == NULL
                        ? NULL
                        : mem_try_alloc(3 * n * sizeof(float), "measuring memory", err);
    double best = 0.0;
    if (memory != NULL) {
        memset(memory, 0, 3 * n * sizeof(float));
        struct triad triad = {.a = memory, .b = memory + n, .c = memory + 2 * n};
        for (int round = 0; round < BANDWIDTH_ROUNDS; round++) {
            const int64_t start = clock_now_ns();
            pool_run(pool, BANDWIDTH_ELEMENTS / BANDWIDTH_CHUNK, add_chunk, &triad);
            const double seconds = clock_since_ms(start) / 1000.0;
            const double rate = 3.0 * (double)n * sizeof(float) / seconds / 1e9;
            best = rate > best ? rate : best;
        }
    }
    mem_free(memory);
    pool_destroy(pool);
    return best;
}

struct reading {
    const uint64_t *words; /* [READING_WORDS] */
    uint64_t *sums; /* [READING_WORDS / READING_CHUNK] so that nothing is left out */
};

/* A pool_task_fn: one chunk. Integers may be added in any order, so the compiler uses
 * vectors; the additions are far faster than memory. */
static void add_words(void *context, int64_t task, int thread)
{
    const struct reading *reading = context;
    (void)thread;
    const uint64_t *words = reading->words + task * READING_CHUNK;
    uint64_t sums[READING_LANES] = {0};
    for (int64_t i = 0; i < READING_CHUNK; i += READING_LANES) {
        for (int lane = 0; lane < READING_LANES; lane++) {
            sums[lane] += words[i + lane];
        }
    }
    uint64_t sum = 0;
    for (int lane = 0; lane < READING_LANES; lane++) {
        sum += sums[lane];
    }
    reading->sums[task] = sum;
}

double machine_measure_reading(int n_threads, struct error *err)
{
    enum { N_CHUNKS = READING_WORDS / READING_CHUNK };
    const size_t bytes = READING_WORDS * sizeof(uint64_t);
    struct pool *pool = pool_create(n_threads, err);
    uint64_t *words =
        pool == NULL ? NULL : mem_try_alloc(bytes, "measuring memory", err);
    double best = 0.0;
    if (words != NULL) {
        uint64_t sums[N_CHUNKS];
        memset(words, 1, bytes); /* pages of zeros may all be one */
        struct reading reading = {.words = words, .sums = sums};
        const int64_t first = clock_now_ns();
        for (int round = 0; round < READING_ROUNDS &&
                            (round < 2 || clock_since_ms(first) < READING_MOST_MS);
             round++) {
            const int64_t start = clock_now_ns();
            pool_run(pool, N_CHUNKS, add_words, &reading);
            const double rate = (double)bytes / clock_since_ms(start) / 1e6;
            best = rate > best ? rate : best;
        }
    }
    mem_free(words);
    pool_destroy(pool);
    return best;
}
