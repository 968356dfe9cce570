/*
 * data - time to plan 100,000 tiny rows, and MB/s of reading rows at the start and at the
 * end of a file (C20: the last tenth within 20 % of the first).
 *
 * Usage: data [FILE.jsonl [MODEL]]. The file holds rows of prompt and completion
 * ("question" and "answer", default: the training rows of the demo, repeated), MODEL a
 * folder with a tokenizer (default: the demo's). Each figure stands beside its target.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/random.h"
#include "data/pack.h"
#include "data/records.h"
#include "text/tokenizer.h"

enum { N_TINY = 100000, N_RUNS = 5, REPEATED_BYTES = 24 << 20, N_TENTHS = 10 };

/* The best of N_RUNS plans of rows of 1 to 16 tokens. */
static void measure_packing(void)
{
    const struct pack_options options = {
        .row_tokens = 512, .is_packed = true, .is_shuffled = true, .seed = 1};
    int32_t *lengths = mem_alloc_array(N_TINY, sizeof(*lengths));
    double best = 0;
    for (uint64_t i = 0; i < N_TINY; i++) {
        lengths[i] = 1 + (int32_t)(random_bits(1, RANDOM_TEST, 0, i) % 16);
    }
    for (int run = 0; run < N_RUNS; run++) {
        const int64_t start = clock_now_ns();
        struct pack_plan *plan = pack_plan_create(lengths, NULL, N_TINY, &options, run);
        const double ms = clock_since_ms(start);
        best = run == 0 || ms < best ? ms : best;
        pack_plan_destroy(plan);
    }
    printf("%-34s %8.1f ms    (target 1000)\n", "pack 100,000 tiny rows", best);
    mem_free(lengths);
}

/* When each tenth of a file was reached. */
struct tenths {
    int64_t at_ns[N_TENTHS + 1];
    int64_t at_bytes[N_TENTHS + 1];
    int n;
};

static void note_progress(void *context, const char *path, int64_t done, int64_t total)
{
    (void)path;
    struct tenths *tenths = context;
    while (tenths->n <= N_TENTHS && done >= total / N_TENTHS * tenths->n) {
        tenths->at_ns[tenths->n] = clock_now_ns();
        tenths->at_bytes[tenths->n++] = done;
    }
}

/* MB/s between two tenths. */
static double speed(const struct tenths *tenths, int from, int to)
{
    const double bytes = (double)(tenths->at_bytes[to] - tenths->at_bytes[from]);
    return bytes / 1e6 / ((double)(tenths->at_ns[to] - tenths->at_ns[from]) / 1e9);
}

/* A file of REPEATED_BYTES or more in the folder, made of the rows of another. */
static bool repeat_rows(const char *path, const char *target, struct error *err)
{
    size_t length;
    char *rows = file_read(path, 1 << 30, &length, err);
    struct file_writer *writer = rows == NULL ? NULL : file_writer_open(target, err);
    bool is_done = writer != NULL;
    for (size_t n = 0; is_done && n < REPEATED_BYTES; n += length + 1) {
        is_done = file_writer_add(writer, rows, length, err);
    }
    mem_free(rows);
    if (!is_done) {
        file_writer_abort(writer);
        return false;
    }
    return file_writer_commit(writer, err);
}

static bool measure_reading(const char *path, const char *folder,
                            const struct tokenizer *tokenizer, struct error *err)
{
    const struct records_options options = {
        .format = RECORDS_INSTRUCTION,
        .template_text = "Question: {question}\nAnswer: ",
        .response = "answer",
        .ends_with_eos = true,
        .row_tokens = 640,
    };
    struct pool *pool = pool_create(0, err);
    for (int run = 0; pool != NULL && run < 2; run++) {
        struct records records = {0};
        struct tenths tenths = {.n = 1};
        tenths.at_ns[0] = clock_now_ns();
        const struct records_reading reading = {.pool = pool,
                                                .cache_folder = folder,
                                                .weight = 1,
                                                .progress = note_progress,
                                                .context = &tenths};
        const bool is_done =
            records_open_file(&records, path, &options, tokenizer, &reading, err);
        const double ms = clock_since_ms(tenths.at_ns[0]);
        if (is_done && run == 0) {
            const double first = speed(&tenths, 0, 1);
            const double last = speed(&tenths, N_TENTHS - 1, N_TENTHS);
            printf("%-34s %8.1f MB/s  (%d threads; target 10 a thread)\n",
                   "tokenise rows into the cache", speed(&tenths, 0, N_TENTHS),
                   pool_n_threads(pool));
            printf("%-34s %8.2f       (target 0.80 to 1.20)\n",
                   "speed of the last tenth / first", last / first);
        } else if (is_done) {
            printf("%-34s %8.1f ms    (%zu examples)\n", "open the cache, checked", ms,
                   records.n);
        }
        records_deinit(&records);
        if (!is_done) {
            pool_destroy(pool);
            return false;
        }
    }
    pool_destroy(pool);
    return pool != NULL;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/demo/train.jsonl";
    const char *model = argc > 2 ? argv[2] : "examples/demo/model";
    char folder[] = "/tmp/lathe-bench-data-XXXXXX";
    struct error err = {.message = ""};
    measure_packing();
    if (!file_exists(path) || !file_is_folder(model) || mkdtemp(folder) == NULL) {
        printf("skipped: needs %s and %s\n", path, model);
        return 0;
    }
    char *repeated = file_join(folder, "rows.jsonl");
    struct tokenizer *tokenizer = tokenizer_read_folder(model, &err);
    const bool is_done =
        tokenizer != NULL && (argc > 1 || repeat_rows(path, repeated, &err)) &&
        measure_reading(argc > 1 ? path : repeated, folder, tokenizer, &err);
    tokenizer_destroy(tokenizer);
    mem_free(repeated);
    if (!is_done) {
        fprintf(stderr, "%s\n", err.message);
    }
    if (!file_remove_tree(folder, &err)) {
        fprintf(stderr, "%s\n", err.message);
    }
    return is_done ? 0 : 1;
}
