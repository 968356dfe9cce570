/*
 * A run folder is made whole; one that exists is refused with the way on; only a run is
 * ever replaced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/run_folder.h"
#include "train/settings.h"

static char base[64];

static int make_base(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    snprintf(base, sizeof(base), "/tmp/lathe-test-XXXXXX");
    return mkdtemp(base) == NULL;
}

static int remove_base(void **state)
{
    (void)state;
    struct error err;
    return file_remove_tree(base, &err) ? 0 : 1;
}

static void make_run(const char *path, bool overwrites, const char *expected)
{
    struct settings settings;
    struct run_folder folder = {0};
    struct error err;
    settings_init(&settings);
    settings.run = path;
    const bool done = run_folder_create(&folder, &settings, overwrites, &err);
    if (expected == NULL) {
        if (!done) {
            fail_msg("%s", err.message);
        }
        run_folder_close(&folder);
    } else {
        assert_false(done);
        assert_int_equal(error_exit_code(err.kind), 2);
        if (strstr(err.message, expected) == NULL) {
            fail_msg("'%s' does not say '%s'", err.message, expected);
        }
    }
    settings_deinit(&settings);
}

static void assert_there(const char *folder, const char *name, bool is_there)
{
    char *path = file_join(folder, name);
    if (file_exists(path) != is_there) {
        fail_msg("%s: there should be %s", path, is_there ? "one" : "none");
    }
    mem_free(path);
}

static void a_run_is_replaced_only_when_told(void **state)
{
    (void)state;
    struct error err;
    char *run = file_join(base, "deep/run");
    make_run(run, false, NULL);
    assert_there(run, "run.yaml", true);
    assert_there(run, "log.txt", true);
    assert_there(run, "metrics.jsonl", true);
    char *old = file_join(run, "old");
    assert_true(file_write_atomic(old, "x", 1, &err));
    make_run(run, false, "--overwrite replaces it");
    assert_there(run, "old", true);
    make_run(run, true, NULL);
    assert_there(run, "old", false);
    mem_free(old);
    mem_free(run);
}

static void what_is_no_run_is_never_removed(void **state)
{
    (void)state;
    struct error err;
    char *folder = file_join(base, "precious");
    assert_true(file_make_folders(folder, &err));
    make_run(folder, false, NULL); /* empty: fine */
    char *other = file_join(base, "other");
    assert_true(file_make_folders(other, &err));
    char *data = file_join(other, "data");
    assert_true(file_write_atomic(data, "x", 1, &err));
    make_run(other, true, "is not a run");
    assert_there(other, "data", true);
    make_run(data, true, "is not a run"); /* a file */

    /* A folder with a run file in it is no run, nor is the one that lathe is called in. */
    char *run_file = file_join(other, "run.yaml");
    assert_true(file_write_atomic(run_file, "seed: 1", 7, &err));
    make_run(other, true, "is not a run");
    assert_there(other, "data", true);
    char *here = file_join(base, "here");
    make_run(here, false, NULL);
    char *before = realpath(".", NULL);
    assert_int_equal(chdir(here), 0);
    make_run(".", true, "--overwrite would remove it");
    assert_int_equal(chdir(before), 0);
    assert_there(here, "run.yaml", true);
    free(before);
    mem_free(here);
    mem_free(run_file);
    mem_free(data);
    mem_free(other);
    mem_free(folder);
}

/* Training goes on from runs/a/model into runs/a: the model would go before it is read. */
static void a_run_that_is_read_is_not_replaced(void **state)
{
    (void)state;
    struct error err;
    char *run = file_join(base, "again");
    char *model = file_join(run, "model");
    char *same = file_join(base, "again/./model/../model");
    make_run(run, false, NULL);
    assert_true(file_make_folders(model, &err));
    struct settings settings;
    settings_init(&settings);
    settings.run = run;
    settings.model = same;
    assert_false(run_folder_check(&settings, true, &err));
    assert_non_null(strstr(err.message, "holds the model"));
    assert_int_equal(error_exit_code(err.kind), 2);
    settings.model = base; /* around it: not touched */
    settings.data.train = STRING_LIST_OF(model);
    assert_false(run_folder_check(&settings, true, &err));
    assert_non_null(strstr(err.message, "holds data.train"));
    settings.data.train = STRING_LIST_OF(base);
    assert_true(run_folder_check(&settings, true, &err));
    settings_deinit(&settings);
    mem_free(same);
    mem_free(model);
    mem_free(run);
}

/* A full disk does not stop the run, but the last line of the log tells. */
static void lost_metrics_are_told(void **state)
{
    (void)state;
    struct settings settings;
    struct run_folder folder = {0};
    struct error err;
    char *run = file_join(base, "full");
    settings_init(&settings);
    settings.run = run;
    assert_true(run_folder_create(&folder, &settings, false, &err));
    fclose(folder.metrics);
    folder.metrics = fopen("/dev/full", "w");
    assert_non_null(folder.metrics);
    fputs("{}\n", folder.metrics);
    log_set_level(LOG_WARNING);
    run_folder_close(&folder);
    log_set_level(LOG_ERROR);
    char *path = file_join(run, "log.txt");
    char *log = file_read(path, 1 << 20, NULL, &err);
    assert_non_null(log);
    if (strstr(log, "metrics.jsonl: ") == NULL) {
        fail_msg("the log says '%s'", log);
    }
    mem_free(log);
    mem_free(path);
    settings_deinit(&settings);
    mem_free(run);
}

/* Lines from before the folder are in its log, in order; without a folder they go. */
static void early_lines_are_in_the_log(void **state)
{
    (void)state;
    struct settings settings;
    struct run_folder folder = {0};
    struct error err;
    char *run = file_join(base, "early");
    settings_init(&settings);
    settings.run = run;
    log_set_level(LOG_WARNING);
    run_folder_hold_log(&folder);
    log_warning("said before");
    assert_true(run_folder_create(&folder, &settings, false, &err));
    log_warning("said after");
    run_folder_close(&folder);
    char *path = file_join(run, "log.txt");
    char *log = file_read(path, 1 << 20, NULL, &err);
    assert_string_equal(log,
                        "lathe: warning: said before\nlathe: warning: said after\n");
    run_folder_hold_log(&folder);
    log_warning("said for nobody");
    run_folder_close(&folder);
    log_set_level(LOG_ERROR);
    mem_free(log);
    mem_free(path);
    settings_deinit(&settings);
    mem_free(run);
}

/* Whatever keeps the folder from being made is told by the check, before any work. */
static void a_place_that_cannot_be_written_is_refused(void **state)
{
    (void)state;
    char *file = file_join(base, "file");
    char *below = file_join(file, "a/b");
    struct error err;
    assert_true(file_write_atomic(file, "x", 1, &err));
    make_run(below, false, "is a file");
    if (geteuid() != 0) { /* root may write anywhere */
        char *closed = file_join(base, "closed");
        char *inner = file_join(closed, "run");
        assert_int_equal(mkdir(closed, 0500), 0);
        make_run(inner, false, "cannot be written");
        mem_free(inner);
        mem_free(closed);
    }
    mem_free(below);
    mem_free(file);
}

/* Replaced in one move; what was there before is gone, with its files. */
static void a_folder_is_published_whole(void **state)
{
    (void)state;
    struct error err;
    struct run_folder folder = {.path = file_join(base, "published")};
    for (int i = 0; i < 3; i++) {
        char *fresh = file_join(folder.path, "best.new");
        char name[32];
        snprintf(name, sizeof(name), "file-%d", i);
        char *file = file_join(fresh, name);
        assert_true(file_make_folders(fresh, &err));
        assert_true(file_write_atomic(file, "x", 1, &err));
        if (!run_folder_publish(&folder, "best.new", "best", &err)) {
            fail_msg("%s", err.message);
        }
        char *best = file_join(folder.path, "best");
        for (int k = 0; k <= i; k++) {
            snprintf(name, sizeof(name), "file-%d", k);
            assert_there(best, name, k == i);
        }
        assert_there(folder.path, "best.new", false);
        mem_free(best);
        mem_free(file);
        mem_free(fresh);
    }
    run_folder_close(&folder);
}

/* What a command wants to write must not cost a run its files: named in any way, through a
 * link, and before they are there. Other names in the folder are free, again and again. */
static void outputs_spare_the_run(void **state)
{
    (void)state;
    struct error err;
    char run[128];
    char path[256];
    snprintf(run, sizeof(run), "%s/spared", base);
    make_run(run, false, NULL);
    snprintf(path, sizeof(path), "%s/model", run);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/link", base);
    assert_int_equal(symlink("spared/run.yaml", path), 0);
    snprintf(path, sizeof(path), "%s/loss.svg", run);
    assert_true(file_write_atomic(path, "x", 1, &err));
    static const struct {
        const char *name;
        bool is_free;
    } outputs[] = {
        {"spared/run.yaml", false},
        {"spared/log.txt", false},
        {"spared/metrics.jsonl", false},
        {"spared/samples.jsonl", false},
        {"spared/model/any.csv", false},
        {"spared/../spared/log.txt", false},
        {"spared//model/../run.yaml", false},
        {"link", false},
        {"spared/loss.svg", true},
        {"spared/new.svg", true},
        {"samples.jsonl", true},
        {"new.svg", true},
        {"nowhere/new.svg", true},
    };
    char metrics[160];
    snprintf(metrics, sizeof(metrics), "%s/metrics.jsonl", run);
    for (size_t i = 0; i < ARRAY_LENGTH(outputs); i++) {
        snprintf(path, sizeof(path), "%s/%s", base, outputs[i].name);
        const char *const given[] = {run, metrics};
        for (size_t k = 0; k < ARRAY_LENGTH(given); k++) {
            if (run_folder_check_output(given[k], "--csv", path, &err) !=
                outputs[i].is_free) {
                fail_msg("%s, run given as %s", path, given[k]);
            }
            if (!outputs[i].is_free) {
                assert_int_equal(error_exit_code(err.kind), 2);
                assert_non_null(strstr(err.message, "--csv "));
                assert_non_null(strstr(err.message, "belongs to the run"));
            }
        }
    }
    /* A figure file that is in no run is still not written over by itself. */
    snprintf(path, sizeof(path), "%s/lone.jsonl", base);
    assert_true(file_write_atomic(path, "{}", 2, &err));
    assert_false(run_folder_check_output(path, "--svg", path, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_replaced_only_when_told),
        cmocka_unit_test(what_is_no_run_is_never_removed),
        cmocka_unit_test(a_run_that_is_read_is_not_replaced),
        cmocka_unit_test(lost_metrics_are_told),
        cmocka_unit_test(early_lines_are_in_the_log),
        cmocka_unit_test(a_place_that_cannot_be_written_is_refused),
        cmocka_unit_test(a_folder_is_published_whole),
        cmocka_unit_test(outputs_spare_the_run),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
