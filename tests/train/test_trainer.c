/*
 * What a run decides by itself: rows per pass and recomputation by the memory limit, with
 * the same result; a run that only meets losses that are not finite stops (C10); what is
 * frozen stays as it is (D9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "formats/safetensors.h"
#include "train/machine.h"
#include "train/metrics.h"
#include "train/trainer_job.h"

static char base[64];
static char *rows_path;

static int make_base(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    snprintf(base, sizeof(base), "/tmp/lathe-test-XXXXXX");
    if (mkdtemp(base) == NULL) {
        return 1;
    }
    rows_path = file_join(base, "rows.jsonl");
    struct str lines = {0};
    for (int r = 0; r < 64; r++) {
        str_add(&lines, "{\"input_ids\": [2");
        for (int i = 0; i < 40 + r % 20; i++) {
            str_printf(&lines, ", %d", 5 + (37 * r + 11 * i) % 240);
        }
        str_add(&lines, "]}\n");
    }
    struct error err;
    const bool done = file_write_atomic(rows_path, lines.text, lines.length, &err);
    str_deinit(&lines);
    return done ? 0 : 1;
}

static int remove_base(void **state)
{
    (void)state;
    struct error err;
    mem_free(rows_path);
    return file_remove_tree(base, &err) ? 0 : 1;
}

/* Settings of a small run into base/name; freed by settings_deinit. */
static void make_settings(struct settings *settings, const char *name)
{
    settings_init(settings);
    settings->model = "tests/golden/gemma4-e2b-tiny";
    settings->run = arena_printf(settings->arena, "%s/%s", base, name);
    static const char *item;
    item = rows_path;
    settings->data.train = (struct string_list){.items = &item, .n = 1};
    settings->data.format = RECORDS_TOKENS;
    settings->data.row_tokens = 64;
    settings->train.steps = 4;
    settings->train.batch_rows = 8;
    settings->train.optimizer.lr = 1e-3;
    settings->train.save_model = false;
}

/* What the job chooses under a memory limit; 0: refused. */
static size_t choose(size_t limit, int recompute, int32_t *rows, bool *recomputes)
{
    struct settings settings;
    make_settings(&settings, "none");
    settings.memory_limit = (int64_t)limit;
    settings.train.recompute = recompute;
    const struct trainer_options options = {.is_dry = true};
    static struct job job;
    struct error err;
    size_t bytes = 0;
    if (trainer_job_open(&job, &settings, &options, &err)) {
        *rows = job.micro_rows;
        *recomputes = job.recomputes;
        bytes = job.plan_bytes;
    } else {
        assert_int_equal(error_exit_code(err.kind), 4);
        assert_non_null(strstr(err.message, "train.recompute"));
    }
    trainer_job_close(&job);
    settings_deinit(&settings);
    return bytes;
}

static void a_tighter_limit_means_fewer_rows_then_recomputation(void **state)
{
    (void)state;
    int32_t rows = 0;
    bool recomputes = true;
    const size_t most = choose((size_t)1 << 30, RECOMPUTE_AUTO, &rows, &recomputes);
    assert_int_equal(rows, 8);
    assert_false(recomputes);

    int32_t fewer = 0;
    const size_t tight = choose(most - 1, RECOMPUTE_AUTO, &fewer, &recomputes);
    assert_true(fewer < rows && !recomputes && tight < most);

    size_t least = tight;
    while (!recomputes) {
        least = choose(least - 1, RECOMPUTE_AUTO, &fewer, &recomputes);
        assert_true(least > 0);
    }
    const size_t smallest = choose(least, RECOMPUTE_NONE, &fewer, &recomputes);
    assert_int_equal(smallest, 0); /* without recomputation it does not fit */
    assert_int_equal(choose(1000, RECOMPUTE_AUTO, &fewer, &recomputes), 0);
}

/* Losses of a run, from its metrics; returns how many. */
static int read_losses(const char *run, double losses[16])
{
    struct error err;
    size_t length = 0;
    char *path = file_join(run, "metrics.jsonl");
    char *text = file_read(path, 1 << 20, &length, &err);
    assert_non_null(text);
    int n = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *root = json_parse(line, strlen(line), path, &err);
        assert_non_null(root);
        assert_true(n < 16);
        losses[n++] = json_number_value(json_object_get(root, "loss"));
        json_decref(root);
    }
    mem_free(text);
    mem_free(path);
    return n;
}

static int run(const char *name, int64_t micro_rows, int recompute, bool packs,
               double losses[16])
{
    struct settings settings;
    make_settings(&settings, name);
    settings.train.micro_rows = micro_rows;
    settings.train.recompute = recompute;
    settings.data.pack = packs;
    const struct trainer_options options = {0};
    struct error err;
    if (!trainer_run(&settings, &options, &err)) {
        fail_msg("%s", err.message);
    }
    const int n = read_losses(settings.run, losses);
    settings_deinit(&settings);
    return n;
}

/* C1, C2: the same run whatever the rows of one pass, with or without recomputation. */
static void rows_per_pass_do_not_matter(void **state)
{
    (void)state;
    double whole[16];
    double split[16];
    double recomputed[16];
    assert_int_equal(run("whole", 8, RECOMPUTE_NONE, false, whole), 4);
    assert_int_equal(run("split", 3, RECOMPUTE_NONE, false, split), 4);
    assert_int_equal(run("recomputed", 3, RECOMPUTE_LAYER, false, recomputed), 4);
    for (int t = 0; t < 4; t++) {
        assert_true(fabs(whole[t] - split[t]) <= 1e-5 * whole[t]);
        assert_true(split[t] == recomputed[t]);
    }
}

static void losses_that_are_not_finite_stop_the_run(void **state)
{
    (void)state;
    log_set_level(LOG_WARNING); /* the log file is what is read below */
    struct settings settings;
    make_settings(&settings, "diverged");
    settings.train.optimizer.lr = 900.0;
    settings.train.optimizer.weight_decay = 10.0; /* p times -8999 a step */
    settings.train.schedule.kind = SCHEDULE_CONSTANT;
    settings.train.steps = 200;
    settings.train.max_skipped = 3;
    const struct trainer_options options = {0};
    struct error err;
    assert_false(trainer_run(&settings, &options, &err));
    assert_int_equal(error_exit_code(err.kind), 1);
    assert_non_null(strstr(err.message, "3 steps in a row"));
    char *log_path = file_join(settings.run, "log.txt");
    size_t length = 0;
    char *log = file_read(log_path, 1 << 20, &length, &err);
    assert_non_null(log);
    assert_non_null(strstr(log, " skipped: loss "));
    assert_non_null(strstr(log, "rows.jsonl"));
    mem_free(log);
    mem_free(log_path);
    settings_deinit(&settings);
}

enum { POISON = 200 }; /* a token */

/* The tiny model in base/poisoned, but that the per-layer embedding of one token is NaN:
 * rows with it have no finite loss, others do not see it. */
static const char *poisoned_model(struct arena *arena)
{
    static const char from[] = "tests/golden/gemma4-e2b-tiny/model.safetensors";
    struct error err;
    const char *folder = arena_printf(arena, "%s/poisoned", base);
    assert_true(file_make_folders(folder, &err));
    assert_true(file_copy("tests/golden/gemma4-e2b-tiny/config.json",
                          arena_printf(arena, "%s/config.json", folder), &err));
    size_t length = 0;
    char *bytes = file_read(from, 1 << 26, &length, &err);
    struct safetensors *file = safetensors_open(from, &err);
    assert_true(bytes != NULL && file != NULL);
    const struct tensor_view *table =
        safetensors_find(file, "model.embed_tokens_per_layer.weight");
    assert_non_null(table);
    char *found = memmem(bytes, length, table->bytes, table->n_bytes);
    assert_non_null(found);
    const size_t row = table->n_bytes / (size_t)table->dim[0];
    memset(found + POISON * row, 0xFF, row); /* NaN */
    assert_true(file_write_atomic(arena_printf(arena, "%s/model.safetensors", folder),
                                  bytes, length, &err));
    safetensors_close(file);
    mem_free(bytes);
    return folder;
}

/* Writes base/name: n rows; every `every`th, from the first on, has the poison. */
static char *write_poisoned(const char *name, int n, int every)
{
    struct str lines = {0};
    for (int r = 0; r < n; r++) {
        str_printf(&lines, "{\"input_ids\": [2, %d, 7, 8]}\n",
                   r % every == 0 ? POISON : 5 + r);
    }
    char *path = file_join(base, name);
    struct error err;
    assert_true(file_write_atomic(path, lines.text, lines.length, &err));
    str_deinit(&lines);
    return path;
}

/* C10, G14: a skipped step names its rows, and only steps in a row stop the run: one
 * that is applied in between starts the count anew. */
static void single_skipped_steps_are_named_and_passed_over(void **state)
{
    (void)state;
    log_set_level(LOG_WARNING);
    char *rows = write_poisoned("poisoned.jsonl", 6, 2);
    struct settings settings;
    make_settings(&settings, "passed-over");
    settings.model = poisoned_model(settings.arena);
    settings.data.train = STRING_LIST_OF(rows);
    settings.data.pack = false;
    settings.data.shuffle = false;
    settings.train.steps = 6;
    settings.train.batch_rows = 1;
    settings.train.max_skipped = 2;
    const struct trainer_options options = {0};
    struct error err;
    if (!trainer_run(&settings, &options, &err)) {
        fail_msg("%s", err.message);
    }
    char *log_path = file_join(settings.run, "log.txt");
    size_t length = 0;
    char *log = file_read(log_path, 1 << 20, &length, &err);
    assert_non_null(log);
    for (int step = 1; step <= 6; step++) {
        char begin[32];
        char end[32];
        snprintf(begin, sizeof(begin), "step %d skipped: ", step);
        snprintf(end, sizeof(end), "rows %d of ", step);
        const char *line = strstr(log, begin);
        assert_int_equal(line != NULL, step % 2 == 1);
        assert_true(line == NULL || strstr(line, end) != NULL);
    }
    assert_non_null(strstr(log, "3 steps were skipped"));
    mem_free(log);
    mem_free(log_path);
    mem_free(rows);
    settings_deinit(&settings);
}

/* Whether the tensor has the same bits in both models. */
static bool is_same(struct model_source *a, struct model_source *b, int param)
{
    const struct param_info *info = &a->params->info[param];
    const size_t bytes = (size_t)info->n_elements * sizeof(float);
    float *x = mem_alloc(bytes);
    float *y = mem_alloc(bytes);
    struct error err;
    assert_true(model_source_read(a, param, 0, info->dim[0], x, &err));
    assert_true(model_source_read(b, param, 0, info->dim[0], y, &err));
    const bool same = memcmp(x, y, bytes) == 0;
    mem_free(x);
    mem_free(y);
    return same;
}

/* D9: what a pattern freezes keeps its bits; all else is trained. */
static void frozen_tensors_keep_their_bits(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*q_proj*", "*embed_tokens_per_layer*"};
    struct settings settings;
    make_settings(&settings, "frozen");
    settings.train.save_model = true;
    settings.train.freeze = (struct string_list){.items = patterns, .n = 2};
    const struct trainer_options options = {0};
    struct error err;
    if (!trainer_run(&settings, &options, &err)) {
        fail_msg("%s", err.message);
    }
    char *path = file_join(settings.run, "model");
    struct model_source before = {0};
    struct model_source after = {0};
    assert_true(model_source_open(&before, settings.model, true, false, &err));
    assert_true(model_source_open(&after, path, true, false, &err));
    int n_frozen = 0;
    for (int i = 0; i < before.params->n; i++) {
        const struct param_info *info = &before.params->info[i];
        const bool is_frozen = strstr(info->name, "q_proj") != NULL ||
                               strstr(info->name, "embed_tokens_per_layer") != NULL ||
                               !info->is_trainable_by_default;
        n_frozen += is_frozen;
        if (is_same(&before, &after, i) != is_frozen) {
            fail_msg("%s %s", info->name, is_frozen ? "has changed" : "has not");
        }
    }
    assert_true(n_frozen > 10 && n_frozen < before.params->n / 2);
    model_source_close(&before);
    model_source_close(&after);
    mem_free(path);
    settings_deinit(&settings);
}

/* A run too long to be walked ahead is planned at once, with room for any row. */
static void a_very_long_run_is_planned_at_once(void **state)
{
    (void)state;
    struct settings settings;
    make_settings(&settings, "none");
    settings.train.steps = INT64_MAX;
    const struct trainer_options options = {.is_dry = true};
    static struct job job;
    struct error err;
    if (!trainer_job_open(&job, &settings, &options, &err)) {
        fail_msg("%s", err.message);
    }
    assert_true(job.n_steps == INT64_MAX);
    assert_true(job.train_C >= job.micro_rows * 64);
    trainer_job_close(&job);
    settings_deinit(&settings);
}

/* Ten thousand epochs of 64 rows: steps are exact without packing, estimated with it, and
 * the loader, not the estimate, ends the run. */
static void very_many_epochs_are_planned_at_once(void **state)
{
    (void)state;
    for (int packs = 0; packs < 2; packs++) {
        struct settings settings;
        make_settings(&settings, "none");
        settings.train.steps = 0;
        settings.train.epochs = 10000;
        settings.train.batch_rows = 1;
        settings.data.pack = packs == 1;
        /* As many rows as one step each would take long to walk. */
        char *rows[200];
        const char *items[200];
        for (int i = 0; i < 200; i++) {
            rows[i] = mem_strdup(rows_path);
            items[i] = rows[i];
        }
        settings.data.train = (struct string_list){.items = items, .n = 200};
        const struct trainer_options options = {.is_dry = true};
        static struct job job;
        struct error err;
        if (!trainer_job_open(&job, &settings, &options, &err)) {
            fail_msg("%s", err.message);
        }
        assert_true(job.has_estimated_steps);
        if (packs == 0) {
            assert_int_equal(job.n_steps, 10000 * 64 * 200);
        } else {
            assert_true(job.n_steps > 10000);
        }
        assert_int_equal(trainer_job_loading(&job).n_steps, 0);
        trainer_job_close(&job);
        settings_deinit(&settings);
        for (int i = 0; i < 200; i++) {
            mem_free(rows[i]);
        }
    }
}

/* A visitor that asks for the end after three steps. */
static bool stop_after_three(void *context, const struct metrics *metrics,
                             int64_t n_steps)
{
    (void)context;
    (void)n_steps;
    return metrics->step < 3;
}

/* As with SIGINT: the model of the last update, and an error that says where. */
static void a_run_that_is_stopped_keeps_its_model(void **state)
{
    (void)state;
    struct settings settings;
    make_settings(&settings, "stopped");
    settings.train.steps = 100;
    settings.train.save_model = true;
    const struct trainer_options options = {.visit = stop_after_three};
    struct error err;
    assert_false(trainer_run(&settings, &options, &err));
    interrupt_note(0);
    assert_int_equal(err.kind, ERROR_INTERRUPTED);
    assert_non_null(strstr(err.message, "after step 3 of 100"));
    char *path = file_join(settings.run, "model/model.safetensors");
    assert_true(file_exists(path));
    mem_free(path);
    settings_deinit(&settings);
}

/* A signal that comes with the last step, or while the model is written: nothing is missing,
 * and the exit code still tells of it. */
static bool stop_after_four(void *context, const struct metrics *metrics,
                            int64_t n_steps)
{
    (void)context;
    return metrics->step < n_steps;
}

static void a_signal_at_the_end_leaves_a_whole_run(void **state)
{
    (void)state;
    struct settings settings;
    make_settings(&settings, "complete");
    settings.train.save_model = true;
    const struct trainer_options options = {.visit = stop_after_four};
    struct error err;
    assert_false(trainer_run(&settings, &options, &err));
    interrupt_note(0);
    assert_int_equal(error_exit_code(err.kind), 130);
    assert_non_null(strstr(err.message, "the run is complete"));
    char *path = file_join(settings.run, "model/model.safetensors");
    assert_true(file_exists(path));
    mem_free(path);
    settings_deinit(&settings);
}

/* Lines that say that the kept peak is too low. */
static void count_peak_notes(void *context, enum log_level level, const char *line)
{
    int *n = context;
    *n += level == LOG_NOTE && strstr(line, "(1e-06 GFLOP/s) is too low") != NULL &&
          strstr(line, "`lathe doctor`") != NULL;
}

/* A share of the peak is no share above 1, so the step has none. */
static bool has_no_mfu(void *context, const struct metrics *metrics, int64_t n_steps)
{
    (void)n_steps;
    *(int *)context += isnan(metrics->mfu) ? 1 : 100;
    return true;
}

/* A peak that was measured on a busy machine gives no mfu above 1: none, and one note. */
static void a_peak_that_is_too_low_is_told_once(void **state)
{
    (void)state;
    char *cache = file_join(base, "cache");
    setenv("XDG_CACHE_HOME", cache, 1);
    struct settings settings;
    make_settings(&settings, "peak");
    int n_steps = 0;
    int n_notes = 0;
    const struct trainer_options planning = {.is_dry = true};
    const struct trainer_options options = {.visit = has_no_mfu, .context = &n_steps};
    static struct job job;
    struct error err;
    assert_true(trainer_job_open(&job, &settings, &planning, &err));
    assert_true(machine_store_peak(backend_describe(job.engine), 1e-6, &err));
    trainer_job_close(&job);
    log_set_level(LOG_NOTE);
    log_set_handler(count_peak_notes, &n_notes);
    const bool done = trainer_run(&settings, &options, &err);
    log_set_handler(NULL, NULL);
    log_set_level(LOG_ERROR);
    assert_true(done);
    assert_int_equal(n_steps, 4);
    assert_int_equal(n_notes, 1);
    unsetenv("XDG_CACHE_HOME");
    settings_deinit(&settings);
    mem_free(cache);
}

/* All of fewer steps than max_skipped were skipped: that is no success, and no model. */
static void a_run_that_learned_nothing_fails(void **state)
{
    (void)state;
    log_set_level(LOG_NOTE); /* the log file is what is read below */
    char *rows = write_poisoned("hopeless.jsonl", 3, 1);
    struct settings settings;
    make_settings(&settings, "hopeless");
    settings.model = poisoned_model(settings.arena);
    settings.data.train = STRING_LIST_OF(rows);
    settings.train.steps = 3;
    settings.train.batch_rows = 1;
    settings.data.pack = false;
    settings.train.save_model = true;
    const struct trainer_options options = {0};
    struct error err;
    assert_false(trainer_run(&settings, &options, &err));
    assert_int_equal(error_exit_code(err.kind), 1);
    assert_non_null(strstr(err.message, "all 3 steps had a loss or gradient that is"));
    assert_non_null(strstr(err.message, "no model was written"));
    assert_false(file_exists(arena_printf(settings.arena, "%s/model", settings.run)));
    size_t length = 0;
    char *log = file_read(arena_printf(settings.arena, "%s/log.txt", settings.run),
                          1 << 20, &length, &err);
    assert_non_null(log);
    assert_non_null(strstr(log, "loss=nan"));
    assert_null(strstr(log, "-nan"));
    assert_null(strstr(log, "Done"));
    mem_free(log);
    mem_free(rows);
    settings_deinit(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peak_that_is_too_low_is_told_once),
        cmocka_unit_test(a_tighter_limit_means_fewer_rows_then_recomputation),
        cmocka_unit_test(rows_per_pass_do_not_matter),
        cmocka_unit_test(losses_that_are_not_finite_stop_the_run),
        cmocka_unit_test(a_run_that_learned_nothing_fails),
        cmocka_unit_test(single_skipped_steps_are_named_and_passed_over),
        cmocka_unit_test(frozen_tensors_keep_their_bits),
        cmocka_unit_test(a_very_long_run_is_planned_at_once),
        cmocka_unit_test(very_many_epochs_are_planned_at_once),
        cmocka_unit_test(a_run_that_is_stopped_keeps_its_model),
        cmocka_unit_test(a_signal_at_the_end_leaves_a_whole_run),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
