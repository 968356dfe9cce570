/*
 * A folder appears whole or not at all (G1): what fails leaves nothing, what a crash has
 * left is removed, what is in the way stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/publish.h"

static char base[64]; /* a fresh folder for each test */
static char path[100];
static char prefix[180];  /* of folders on their way */
static char partial[200]; /* as this process names it */
static struct error err;

static int setup(void **state)
{
    (void)state;
    strcpy(base, "/tmp/test_publish-XXXXXX");
    if (mkdtemp(base) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/result", base);
    char host[65] = "";
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    snprintf(prefix, sizeof(prefix), "%s/result.partial-%s-", base, host);
    snprintf(partial, sizeof(partial), "%s%ld", prefix, (long)getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return file_remove_tree(base, &err) ? 0 : -1;
}

/* A publish_fill_fn; context: whether it works out. */
static bool fill(void *context, const char *folder, struct error *error)
{
    char file[300];
    snprintf(file, sizeof(file), "%s/part", folder);
    assert_string_equal(folder, partial);
    assert_false(file_exists(path) && !file_is_empty_folder(path));
    return file_write_atomic(file, "text", 4, error) &&
           (*(const bool *)context || error_set(error, ERROR_RESOURCE, "no more room"));
}

static void a_folder_appears_whole(void **state)
{
    (void)state;
    bool works = true;
    char with_slash[110];
    snprintf(with_slash, sizeof(with_slash), "%s//", path);
    assert_true(publish_folder(with_slash, "the result", fill, &works, &err));
    char file[300];
    snprintf(file, sizeof(file), "%s/part", path);
    assert_true(file_exists(file));
    assert_false(file_exists(partial));
}

/* The number of a process that has ended. */
static long ended_process(void)
{
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    return (long)child;
}

/* What a killed process left is removed; what another one writes at this moment, what
 * another machine writes, and folders of people that are named alike stay. */
static void only_what_was_left_behind_is_removed(void **state)
{
    (void)state;
    char left[300];
    snprintf(left, sizeof(left), "%s%ld", prefix, ended_process());
    char others[4][300];
    snprintf(others[0], sizeof(others[0]), "%s%ld", prefix, (long)getppid());
    snprintf(others[1], sizeof(others[1]), "%s/result.partial-elsewhere-%ld", base,
             ended_process());
    snprintf(others[2], sizeof(others[2]), "%s/result.partial", base);
    snprintf(others[3], sizeof(others[3]), "%s12x", prefix);
    assert_true(file_make_folders(left, &err));
    for (int i = 0; i < 4; i++) {
        assert_true(file_make_folders(others[i], &err));
    }
    bool works = true;
    assert_true(publish_folder(path, "the result", fill, &works, &err));
    assert_false(file_exists(left));
    for (int i = 0; i < 4; i++) {
        assert_true(file_exists(others[i]));
    }
}

/* A publish_fill_fn: another process gives the same folder meanwhile. */
static bool fill_slowly(void *context, const char *folder, struct error *error)
{
    (void)context;
    (void)folder;
    char file[300];
    snprintf(file, sizeof(file), "%s/theirs", path);
    return file_make_folders(path, error) && file_write_atomic(file, "x", 1, error);
}

static void the_first_one_to_finish_gives_the_folder(void **state)
{
    (void)state;
    assert_false(publish_folder(path, "the result", fill_slowly, NULL, &err));
    assert_non_null(strstr(err.message, "cannot be renamed"));
    assert_false(file_exists(partial));
    char file[300];
    snprintf(file, sizeof(file), "%s/theirs", path);
    assert_true(file_exists(file));
}

static void what_fails_leaves_nothing(void **state)
{
    (void)state;
    bool works = false;
    assert_false(publish_folder(path, "the result", fill, &works, &err));
    assert_string_equal(err.message, "no more room");
    assert_int_equal(err.kind, ERROR_RESOURCE);
    assert_false(file_exists(path));
    assert_false(file_exists(partial));
}

static void what_is_in_the_way_stays(void **state)
{
    (void)state;
    bool works = true;
    /* An empty folder is no obstacle, a full one is. */
    assert_true(file_make_folders(path, &err));
    assert_true(publish_folder(path, "the result", fill, &works, &err));
    assert_false(publish_folder(path, "the result", fill, &works, &err));
    assert_non_null(strstr(err.message, "exists and is not empty"));
    assert_int_equal(error_exit_code(err.kind), 2);
    char file[300];
    snprintf(file, sizeof(file), "%s/part", path);
    assert_false(publish_folder(file, "the result", fill, &works, &err));
    assert_non_null(strstr(err.message, "is in the way of the result"));
    assert_true(file_exists(file));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_appears_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_was_left_behind_is_removed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_first_one_to_finish_gives_the_folder, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_fails_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_in_the_way_stays, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
