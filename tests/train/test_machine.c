/*
 * What is kept of a machine: found again for the same engine only, beside rows of other
 * machines, and not needed to be there or whole.
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
#include "base/mem.h"
#include "base/str.h"
#include "train/machine.h"

static char folder[] = "/tmp/lathe-machine-XXXXXX";

static int make_cache(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL || setenv("XDG_CACHE_HOME", folder, 1) != 0;
}

static int remove_cache(void **state)
{
    (void)state;
    struct error err;
    return !file_remove_tree(folder, &err);
}

static char *path_of_file(void)
{
    struct error err;
    char *cache = file_cache_folder(&err);
    assert_non_null(cache);
    char *path = file_join(cache, "machine.json");
    mem_free(cache);
    return path;
}

static void keeps_a_peak_for_its_engine(void **state)
{
    (void)state;
    struct error err;
    assert_true(machine_peak_gflops("cpu, 2 threads, avx2, openblas") == 0.0);
    assert_true(machine_store_peak("cpu, 2 threads, avx2, openblas", 171.5, &err));
    assert_true(machine_store_peak("cpu, 1 thread, avx2, openblas", 90.25, &err));
    assert_true(machine_peak_gflops("cpu, 2 threads, avx2, openblas") == 171.5);
    assert_true(machine_peak_gflops("cpu, 1 thread, avx2, openblas") == 90.25);
    assert_true(machine_peak_gflops("cpu, 2 threads, avx2, onednn") == 0.0);
    assert_true(machine_store_peak("cpu, 2 threads, avx2, openblas", 180.0, &err));
    assert_true(machine_peak_gflops("cpu, 2 threads, avx2, openblas") == 180.0);
    /* As a loaded machine would measure it. */
    assert_true(machine_store_peak("cpu, 2 threads, avx2, openblas", 23.0, &err));
    assert_true(machine_peak_gflops("cpu, 2 threads, avx2, openblas") == 180.0);
    assert_true(machine_peak_gflops("cpu, 1 thread, avx2, openblas") == 90.25);
}

static void keeps_rows_of_other_processors(void **state)
{
    (void)state;
    struct error err;
    char *path = path_of_file();
    static const char text[] = "{\"peaks\": [{\"processor\": \"another\", \"engine\": "
                               "\"e\", \"f32_gflops\": 7},"
                               " {\"engine\": \"e\"}, 3]}";
    assert_true(file_write_atomic(path, text, strlen(text), &err));
    assert_true(machine_peak_gflops("e") == 0.0);
    assert_true(machine_store_peak("e", 12.0, &err));
    assert_true(machine_peak_gflops("e") == 12.0);
    size_t length;
    char *now = file_read(path, 1 << 20, &length, &err);
    assert_non_null(strstr(now, "\"another\""));
    mem_free(now);
    mem_free(path);
}

static void damage_is_no_error(void **state)
{
    (void)state;
    struct error err;
    char *path = path_of_file();
    static const char *const texts[] = {"", "{", "[1]", "{\"peaks\": {}}",
                                        "{\"peaks\": 1}"};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_true(file_write_atomic(path, texts[i], strlen(texts[i]), &err));
        assert_true(machine_peak_gflops("e") == 0.0);
        assert_true(machine_store_peak("e", 5.0, &err));
        assert_true(machine_peak_gflops("e") == 5.0);
    }
    mem_free(path);
    /* Without a place for it there is no figure, and storing says so. */
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    assert_true(machine_peak_gflops("e") == 0.0);
    assert_false(machine_store_peak("e", 5.0, &err));
    setenv("XDG_CACHE_HOME", folder, 1);
}

static void measures(void **state)
{
    (void)state;
    struct error err;
    char name[100];
    assert_true(strlen(machine_processor(name)) > 3);
    const double rate = machine_measure_bandwidth(1, &err);
    assert_true(rate > 0.05 && rate < 5000.0);
    const double reading = machine_measure_reading(1, &err);
    assert_true(reading > 0.05 && reading < 5000.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_a_peak_for_its_engine),
        cmocka_unit_test(keeps_rows_of_other_processors),
        cmocka_unit_test(damage_is_no_error),
        cmocka_unit_test(measures),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
