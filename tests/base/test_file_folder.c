/*
 * Folders that are made and removed, without following links; names; room on a disk; the
 * place of the cache.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

static char folder[64]; /* a fresh one for each test */

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_file_folder-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    struct error err;
    return file_remove_tree(folder, &err) ? 0 : -1;
}

/* The path of `name` in the folder; valid until the next call but three. */
static const char *inside(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void assert_content(const char *path, const void *bytes, size_t length)
{
    struct error err;
    size_t found_length = 0;
    char *found = file_read(path, SIZE_MAX - 1, &found_length, &err);
    assert_non_null(found);
    assert_int_equal(found_length, length);
    assert_memory_equal(found, bytes, length);
    assert_int_equal(found[length], '\0');
    mem_free(found);
}

static void folders(void **state)
{
    (void)state;
    struct error err;
    assert_true(file_make_folders(inside("a/b//c/"), &err));
    assert_true(file_make_folders(inside("a/b/c"), &err));
    assert_true(file_is_folder(inside("a/b/c")));
    assert_true(file_is_empty_folder(inside("a/b/c")));
    assert_false(file_is_empty_folder(inside("a/b")));
    assert_false(file_is_empty_folder(inside("nowhere")));
    assert_true(file_write_atomic(inside("a/f"), "x", 1, &err));
    assert_false(file_is_folder(inside("a/f")));
    assert_false(file_is_empty_folder(inside("a/f")));
    assert_true(file_exists(inside("a/f")));
    assert_false(file_make_folders(inside("a/f/g"), &err));
    assert_non_null(strstr(err.message, "a/f"));
}

static void removal_does_not_follow_links(void **state)
{
    (void)state;
    struct error err;
    assert_true(file_make_folders(inside("kept"), &err));
    assert_true(file_write_atomic(inside("kept/f"), "x", 1, &err));
    assert_true(file_make_folders(inside("gone/deep/deeper"), &err));
    assert_true(file_write_atomic(inside("gone/deep/f"), "x", 1, &err));
    assert_int_equal(symlink(inside("kept"), inside("gone/link")), 0);
    assert_int_equal(symlink("nowhere", inside("gone/deep/dangling")), 0);
    assert_true(file_remove_tree(inside("gone"), &err));
    assert_false(file_exists(inside("gone")));
    assert_content(inside("kept/f"), "x", 1);
    assert_true(file_remove_tree(inside("gone"), &err)); /* not there: nothing to do */
}

static void joins(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a/", "/b", "a/b"},
        {"/", "b", "/b"},  {"", "b", "b"},     {"a", "b/c", "a/b/c"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *path = file_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        mem_free(path);
    }
}

static void a_disk_without_room_is_told(void **state)
{
    (void)state;
    struct error err;
    assert_true(file_check_room("/tmp", 1, "a byte", &err));
    assert_false(file_check_room("/tmp", SIZE_MAX, "everything", &err));
    assert_int_equal(error_exit_code(err.kind), 4);
    assert_non_null(strstr(err.message, "/tmp: everything needs "));
    assert_false(file_check_room("/nowhere", 1, "a byte", &err));
    assert_non_null(strstr(err.message, "/nowhere"));
}

static void where_the_cache_is(void **state)
{
    (void)state;
    struct error err;
    setenv("XDG_CACHE_HOME", "/some/cache", 1);
    setenv("HOME", "/some/home/", 1);
    char *cache = file_cache_folder(&err);
    assert_string_equal(cache, "/some/cache/lathe");
    mem_free(cache);
    setenv("XDG_CACHE_HOME", "relative", 1);
    cache = file_cache_folder(&err);
    assert_string_equal(cache, "/some/home/.cache/lathe");
    mem_free(cache);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_null(file_cache_folder(&err));
    assert_non_null(strstr(err.message, "HOME"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(removal_does_not_follow_links, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(joins, make_folder, remove_folder),
        cmocka_unit_test(a_disk_without_room_is_told),
        cmocka_unit_test(where_the_cache_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
