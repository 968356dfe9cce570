/*
 * The rows of a run: several files, held-out files and shares, limits, what is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/job_data.h"
#include "train/trainer_job.h"

static char folder[64];
static char *paths[3];

/* Three files of 10, 20 and 30 rows. */
static int make_files(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lathe-test-job-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    for (int f = 0; f < 3; f++) {
        struct error err;
        struct str text = {0};
        char name[16];
        snprintf(name, sizeof(name), "%c.jsonl", 'a' + f);
        paths[f] = file_join(folder, name);
        for (int i = 0; i < 10 * (f + 1); i++) {
            str_printf(&text, "{\"input_ids\": [2, %d, %d]}\n", 10 + f, 20 + i);
        }
        if (!file_write_atomic(paths[f], text.text, text.length, &err)) {
            return 1;
        }
        str_deinit(&text);
    }
    log_set_level(LOG_ERROR);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    struct error err;
    for (int f = 0; f < 3; f++) {
        mem_free(paths[f]);
    }
    log_set_level(LOG_NOTE);
    return !file_remove_tree(folder, &err);
}

/* A job over these settings, as far as its data need it. */
struct setting {
    struct settings settings;
    struct job job;
    const char *train[3], *eval[3];
};

static void begin(struct setting *setting, int n_train, int n_eval)
{
    struct settings *settings = &setting->settings;
    settings_init(settings);
    memset(&setting->job, 0, sizeof(setting->job));
    for (int f = 0; f < 3; f++) {
        setting->train[f] = paths[f];
        setting->eval[f] = paths[2 - f];
    }
    settings->data.train = (struct string_list){.items = setting->train, .n = n_train};
    settings->data.eval = (struct string_list){.items = setting->eval, .n = n_eval};
    settings->data.format = RECORDS_TOKENS;
    settings->data.row_tokens = 16;
    setting->job.settings = settings;
    setting->job.source.path = "no-model";
    setting->job.source.config.V = 100;
    setting->job.source.config.max_positions = 64;
}

static void end(struct setting *setting)
{
    job_data_close(&setting->job);
    settings_deinit(&setting->settings);
}

static void open_or_fail(struct setting *setting)
{
    struct error err = {.message = ""};
    if (!job_data_open(&setting->job, &err)) {
        fail_msg("%s", err.message);
    }
}

static void several_files(void **state)
{
    (void)state;
    static struct setting setting;
    static const char *const weights[] = {"2", "1", "0.5"};
    begin(&setting, 3, 2);
    setting.settings.data.weights = (struct string_list){.items = weights, .n = 3};
    open_or_fail(&setting);
    const struct job *job = &setting.job;
    assert_int_equal(job->train.n, 60);
    assert_int_equal(job->train.n_sources, 3);
    assert_true(job->train.sources[0].weight == 2.0);
    assert_true(job->train.sources[2].weight == 0.5);
    assert_true(job->has_eval);
    assert_int_equal(job->eval.n, 50);
    assert_string_equal(job->eval.sources[1].name, paths[1]);
    assert_int_equal(records_example(&job->eval, 30).source, 1);
    end(&setting);
    /* Nobody looks at held-out rows: they are not read. */
    begin(&setting, 1, 1);
    setting.settings.eval.at_epoch_end = false;
    setting.eval[0] = "no-such-file";
    open_or_fail(&setting);
    assert_false(setting.job.has_eval);
    end(&setting);
}

/* eval.max_rows is shared out over the files. */
static void limited_held_out_rows(void **state)
{
    (void)state;
    static struct setting setting;
    begin(&setting, 1, 2);
    setting.settings.eval.max_rows = 7;
    open_or_fail(&setting);
    assert_int_equal(setting.job.eval.sources[0].n, 4);
    assert_int_equal(setting.job.eval.sources[1].n, 3);
    end(&setting);
    begin(&setting, 1, 2);
    setting.settings.eval.max_rows = 1;
    open_or_fail(&setting);
    assert_int_equal(setting.job.eval.n_sources, 1);
    assert_int_equal(setting.job.eval.n, 1);
    end(&setting);
}

static void held_out_share(void **state)
{
    (void)state;
    static struct setting setting;
    begin(&setting, 2, 0);
    setting.settings.data.eval_share = 0.2;
    open_or_fail(&setting);
    assert_true(setting.job.has_eval);
    assert_int_equal(setting.job.eval.n, 2 + 4);
    assert_int_equal(setting.job.train.n, 8 + 16);
    end(&setting);
}

static void what_is_refused(void **state)
{
    (void)state;
    static struct setting setting;
    struct error err = {.message = ""};
    begin(&setting, 2, 0);
    setting.train[1] = "no-such-file";
    assert_false(job_data_open(&setting.job, &err));
    assert_non_null(strstr(err.message, "no-such-file"));
    end(&setting);
    begin(&setting, 1, 0);
    setting.settings.data.row_tokens = 65;
    assert_false(job_data_open(&setting.job, &err));
    assert_non_null(strstr(err.message, "data.row_tokens is 65, the model goes to 64"));
    end(&setting);
    begin(&setting, 1, 0);
    setting.settings.data.row_tokens = 2;
    setting.settings.data.overlong = RECORDS_DROP;
    assert_false(job_data_open(&setting.job, &err)); /* every row is too long */
    assert_non_null(strstr(err.message, "no row that can be learned from"));
    assert_int_equal(error_exit_code(err.kind), 3);
    end(&setting);
    begin(&setting, 1, 0);
    setting.job.source.config.V = 20; /* ids up to 29 */
    assert_false(job_data_open(&setting.job, &err));
    assert_non_null(strstr(err.message, "a.jsonl:1: column 2: input_ids[2]"));
    end(&setting);
}

/* What the log showed of a job that is being opened. */
struct watch {
    const struct job *job;
    int n_files;          /* whose rows were told */
    int n_with_an_engine; /* of them, while there was an engine */
};

/* A log_line_fn: job_data.c tells of each file once its rows are there. */
static void watch_line(void *context, enum log_level level, const char *line)
{
    struct watch *watch = context;
    if (level == LOG_NOTE && strstr(line, " examples, ") != NULL) {
        watch->n_files++;
        watch->n_with_an_engine += watch->job->engine != NULL;
    }
}

/* C19: while rows are prepared there is nothing that could wait for them: the engine,
 * and with it every thread and every exchange between ranks, is made afterwards. */
static void no_engine_before_the_rows(void **state)
{
    (void)state;
    static struct setting setting;
    struct error err = {.message = ""};
    begin(&setting, 2, 1);
    const struct trainer_options options = {.is_quiet = true};
    struct watch watch = {.job = &setting.job};
    setting.settings.model = "tests/golden/gemma3-tiny";
    setting.settings.train.steps = 1;
    log_set_level(LOG_NOTE);
    log_set_handler(watch_line, &watch);
    const bool is_open =
        trainer_job_open(&setting.job, &setting.settings, &options, &err);
    log_set_handler(NULL, NULL);
    log_set_level(LOG_ERROR);
    if (!is_open) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(watch.n_files, 3);
    assert_int_equal(watch.n_with_an_engine, 0);
    assert_non_null(setting.job.engine);
    trainer_job_close(&setting.job);
    /* Rows that cannot be read end the opening before there is one. */
    setting.train[1] = "no-such-file";
    assert_false(trainer_job_open(&setting.job, &setting.settings, &options, &err));
    assert_non_null(strstr(err.message, "no-such-file"));
    assert_null(setting.job.engine);
    trainer_job_close(&setting.job);
    settings_deinit(&setting.settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_files, make_files, remove_files),
        cmocka_unit_test_setup_teardown(limited_held_out_rows, make_files,
                                        remove_files),
        cmocka_unit_test_setup_teardown(held_out_share, make_files, remove_files),
        cmocka_unit_test_setup_teardown(what_is_refused, make_files, remove_files),
        cmocka_unit_test_setup_teardown(no_engine_before_the_rows, make_files,
                                        remove_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
