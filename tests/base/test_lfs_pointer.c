/*
 * git-lfs pointers in the place of files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "base/lfs_pointer.h"

static void pointers_are_named(void **state)
{
    (void)state;
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    struct error err = {.message = ""};
    assert_false(lfs_pointer_check(pointer, sizeof(pointer) - 1, "m.gguf", &err));
    assert_string_equal(err.message,
                        "m.gguf: a git-lfs pointer, not the file itself: fetch it with "
                        "`git lfs pull` in its repository");
    assert_int_equal(err.kind, ERROR_DATA);
    assert_true(lfs_pointer_check(pointer, 20, "m.gguf", &err));
    assert_true(lfs_pointer_check(NULL, 0, "m.gguf", &err));
    assert_true(lfs_pointer_check("version 1 of something that is no pointer at all",
                                  48, "m.gguf", &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
