/*
 * Cleared, aligned, separate pieces; big and small; text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"

static void pieces_are_cleared_aligned_and_apart(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    unsigned char *pieces[400];
    for (size_t i = 0; i < 400; i++) {
        const size_t bytes = i * 7;
        pieces[i] = arena_alloc(arena, bytes);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t j = 0; j < bytes; j++) {
            assert_int_equal(pieces[i][j], 0);
        }
        memset(pieces[i], (int)(i % 251), bytes);
    }
    for (size_t i = 0; i < 400; i++) {
        for (size_t j = 0; j < i * 7; j++) {
            assert_int_equal(pieces[i][j], i % 251);
        }
    }
    assert_true(arena_used_bytes(arena) >= 400 * 399 / 2 * 7);
    arena_destroy(arena);
    arena_destroy(NULL);
}

static void large_pieces_get_their_own_chunk(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    char *small = arena_strdup(arena, "before");
    int64_t *large = arena_alloc_array(arena, 500000, sizeof(*large));
    char *after = arena_printf(arena, "%s-%d", "after", 5);
    large[0] = 1;
    large[499999] = 2;
    assert_string_equal(small, "before");
    assert_string_equal(after, "after-5");
    assert_int_equal(large[250000], 0);
    arena_destroy(arena);
}

static void nothing_has_an_address_of_its_own(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    assert_ptr_not_equal(arena_alloc(arena, 0), arena_alloc(arena, 0));
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_cleared_aligned_and_apart),
        cmocka_unit_test(large_pieces_get_their_own_chunk),
        cmocka_unit_test(nothing_has_an_address_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
