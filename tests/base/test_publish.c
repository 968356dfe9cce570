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

#include "base/error.h"
#include "base/file.h"
#include "base/publish.h"

static char base[64]; /* a fresh folder for each test */
static char path[100];
static char partial[100];
static struct error err;

static int setup(void **state)
{
    (void)state;
    strcpy(base, "/tmp/test_publish-XXXXXX");
    if (mkdtemp(base) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/result", base);
    snprintf(partial, sizeof(partial), "%s/result.partial", base);
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
    char file[200];
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
    /* Left behind by a crash, with a file that must not be in the result. */
    char old[200];
    snprintf(old, sizeof(old), "%s/old", partial);
    assert_true(file_make_folders(partial, &err));
    assert_true(file_write_atomic(old, "old", 3, &err));
    char with_slash[110];
    snprintf(with_slash, sizeof(with_slash), "%s//", path);
    assert_true(publish_folder(with_slash, "the result", fill, &works, &err));
    char file[200];
    snprintf(file, sizeof(file), "%s/part", path);
    assert_true(file_exists(file));
    snprintf(file, sizeof(file), "%s/old", path);
    assert_false(file_exists(file));
    assert_false(file_exists(partial));
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
    char file[200];
    snprintf(file, sizeof(file), "%s/part", path);
    assert_false(publish_folder(file, "the result", fill, &works, &err));
    assert_non_null(strstr(err.message, "is in the way of the result"));
    assert_true(file_exists(file));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_appears_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fails_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_in_the_way_stays, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
