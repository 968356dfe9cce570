/*
 * Ids and starts grow together; clearing keeps the memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/token_list.h"

static void grows_and_clears(void **state)
{
    (void)state;
    struct token_list list = {0};
    for (int i = 0; i < 1000; i++) {
        token_list_add(&list, 3 * i, (uint32_t)i);
    }
    assert_int_equal(list.n, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(list.ids[i], 3 * i);
        assert_int_equal(list.starts[i], i);
    }
    const size_t capacity = list.capacity;
    token_list_clear(&list);
    assert_int_equal(list.n, 0);
    assert_int_equal(list.capacity, capacity);
    token_list_deinit(&list);
    assert_null(list.ids);
    token_list_deinit(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(grows_and_clears)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
