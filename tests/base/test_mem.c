/*
 * Alignment, clearing, growth, overflow, and how running out ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

static void blocks_are_aligned_and_cleared(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,      1, 63, 64, 65, 4096, 1 << 20, (1 << 20) + 1,
                                   5 << 20};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        unsigned char *bytes = mem_alloc(sizes[i]);
        assert_int_equal((uintptr_t)bytes % MEM_ALIGNMENT, 0);
        for (size_t j = 0; j < sizes[i]; j++) {
            assert_int_equal(bytes[j], 0);
        }
        memset(bytes, 0xAB, sizes[i]); /* so that the next one has to be cleared */
        mem_free(bytes);
    }
    mem_free(NULL);
}

static void try_alloc_is_aligned_and_writable(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 100, (1 << 20) - 1, 1 << 20, 33 << 20};
    struct error err;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        unsigned char *bytes = mem_try_alloc(sizes[i], "block", &err);
        assert_non_null(bytes);
        assert_int_equal((uintptr_t)bytes % MEM_ALIGNMENT, 0);
        if (sizes[i] > 0) {
            bytes[0] = 1;
            bytes[sizes[i] - 1] = 2;
        }
        mem_free(bytes);
    }
}

static void untouched_pages_cost_nothing(void **state)
{
    (void)state;
#ifdef LATHE_SLOW_CHECKS
    skip(); /* sanitizers take everything from the heap */
#endif
    struct error err;
    const size_t bytes = (size_t)256 << 20;
    const size_t before = mem_resident_bytes();
    void *block = mem_try_alloc(bytes, "block", &err);
    assert_non_null(block);
    const size_t after = mem_resident_bytes();
    mem_free(block);
    assert_true(before > 0);
    assert_true(after < before + (16u << 20));
}

/* G3 */
static void impossible_sizes_are_errors(void **state)
{
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 64, PTRDIFF_MAX,
                                   (size_t)1 << 60};
#ifdef LATHE_SLOW_CHECKS
    skip(); /* sanitizers end the process at such sizes */
#endif
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct error err;
        assert_null(mem_try_alloc(sizes[i], "logits", &err));
        assert_int_equal(err.kind, ERROR_RESOURCE);
        assert_non_null(strstr(err.message, "logits"));
    }
}

static void chosen_allocation_fails(void **state)
{
    (void)state;
    struct error err;
    mem_fail_try_alloc(2);
    void *first = mem_try_alloc(8, "first", &err);
    void *second = mem_try_alloc(8, "second", &err);
    void *third = mem_try_alloc(8, "third", &err);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(err.kind, ERROR_RESOURCE);
    mem_free(first);
    mem_free(third);
}

static void size_mul_finds_overflow(void **state)
{
    (void)state;
    size_t product;
    assert_true(mem_size_mul(0, SIZE_MAX, &product));
    assert_int_equal(product, 0);
    assert_true(mem_size_mul(SIZE_MAX, 1, &product));
    assert_int_equal(product, SIZE_MAX);
    assert_true(mem_size_mul((size_t)1 << 32, ((size_t)1 << 32) - 1, &product));
    assert_false(mem_size_mul((size_t)1 << 32, (size_t)1 << 32, &product));
    assert_int_equal(product, SIZE_MAX);
    assert_false(mem_size_mul(SIZE_MAX, 2, &product));
}

static void arrays_grow_and_keep_their_content(void **state)
{
    (void)state;
    int64_t *items = NULL;
    size_t capacity = 0;
    for (size_t n = 0; n < 300000; n++) { /* from heap to mapped blocks */
        items = mem_reserve_one(items, n, &capacity, sizeof(*items));
        assert_true(capacity > n);
        items[n] = (int64_t)n * 3;
    }
    for (int64_t i = 0; i < 300000; i++) {
        assert_int_equal(items[i], i * 3);
    }
    assert_ptr_equal(mem_grow_array(items, capacity, 5, sizeof(*items)), items);
    mem_free(items);
}

static void strings_are_copied(void **state)
{
    (void)state;
    char *whole = mem_strdup("gemma");
    char *part = mem_strndup("gemma", 3);
    char *more = mem_strndup("gemma", 30);
    assert_string_equal(whole, "gemma");
    assert_string_equal(part, "gem");
    assert_string_equal(more, "gemma");
    mem_free(whole);
    mem_free(part);
    mem_free(more);
    /* A length that goes along with a text holds for its NUL bytes too. */
    char *bytes = mem_copy_bytes("a\0bc", 4);
    char *none = mem_copy_bytes(NULL, 0);
    assert_memory_equal(bytes, "a\0bc", 5);
    assert_string_equal(none, "");
    mem_free(bytes);
    mem_free(none);
}

/* Runs `child_main` in a child with standard error closed; returns its wait status. */
static int status_of_child(void (*child_main)(void))
{
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        child_main();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void exhaust(void)
{
    mem_alloc_array(SIZE_MAX / 4, 8);
}

static void exhaustion_ends_with_code_4(void **state)
{
    (void)state;
    const int status = status_of_child(exhaust);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 4);
}

static void allocate_under_guard(void)
{
    mem_guard_begin();
    mem_free(mem_alloc(8));
}

static void guard_stops_allocation(void **state)
{
    (void)state;
    const int status = status_of_child(allocate_under_guard);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    mem_guard_begin();
    mem_guard_end();
    mem_free(mem_alloc(8));
}

static void resident_memory_is_counted(void **state)
{
    (void)state;
    const size_t before = mem_resident_bytes();
    const size_t bytes = (size_t)24 << 20;
    unsigned char *block = mem_alloc(bytes);
    memset(block, 1, bytes);
    const size_t during = mem_resident_bytes();
    mem_free(block);
    assert_true(before > 0);
    assert_true(during >= before + bytes / 2);
    /* Linux counts pages in batches per processor: some hundred KiB may be missing. */
    assert_true(mem_peak_resident_bytes() + (1 << 20) >= during);
}

static void the_machine_has_memory(void **state)
{
    (void)state;
    const size_t bytes = mem_machine_bytes();
    assert_true(bytes >= mem_resident_bytes());
    const double physical =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    assert_true((double)bytes <= physical);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_cleared),
        cmocka_unit_test(try_alloc_is_aligned_and_writable),
        cmocka_unit_test(untouched_pages_cost_nothing),
        cmocka_unit_test(impossible_sizes_are_errors),
        cmocka_unit_test(chosen_allocation_fails),
        cmocka_unit_test(size_mul_finds_overflow),
        cmocka_unit_test(arrays_grow_and_keep_their_content),
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(exhaustion_ends_with_code_4),
        cmocka_unit_test(guard_stops_allocation),
        cmocka_unit_test(resident_memory_is_counted),
        cmocka_unit_test(the_machine_has_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
