/*
 * The report: facts that are not known, what is wrong, and JSON that can be read.
 * tests/scenarios/55-tools.sh runs the examination itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/doctor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

static void fill(struct doctor *doctor)
{
    *doctor = (struct doctor){.n_processors = 4,
                              .n_usable = 2,
                              .machine_bytes = (size_t)8 << 30,
                              .limit_bytes = (size_t)2 << 30,
                              .available_bytes = (size_t)1 << 30,
                              .gbytes_per_s = 12.5,
                              .gflops = 100.0,
                              .disk_bytes = -1.0,
                              .n_libraries = 2,
                              .n_kernels = 3};
    snprintf(doctor->processor, sizeof(doctor->processor), "A \"fast\" one");
    snprintf(doctor->engine, sizeof(doctor->engine), "cpu, 2 threads, avx2, plain");
    doctor->libraries[0] = (struct libraries_row){
        .name = "OpenBLAS", .purpose = "products", .absence = "slow"};
    doctor->libraries[1] =
        (struct libraries_row){.name = "jansson", .version = "2.14", .purpose = "JSON"};
    for (int i = 0; i < 3; i++) {
        doctor->kernels[i] =
            (struct doctor_kernel){.kernel = i == 0 ? "matmul" : "geglu",
                                   .error = 1e-7,
                                   .bound = 1e-5,
                                   .is_fine = true};
        snprintf(doctor->kernels[i].engine, sizeof(doctor->kernels[i].engine), "%s",
                 i < 2 ? "plain, plain" : "avx2, plain");
    }
}

static void assert_has(const struct str *text, const char *what)
{
    if (strstr(text->text, what) == NULL) {
        fail_msg("no '%s' in\n%s", what, text->text);
    }
}

static void a_report_of_a_sound_machine(void **state)
{
    (void)state;
    struct doctor *doctor = mem_alloc(sizeof(*doctor));
    struct str text = {0};
    fill(doctor);
    doctor_print(doctor, &text);
    assert_has(&text, "2 of 4 processors can be used");
    assert_has(&text, "this process may use 2.0 GiB; 12.5 GB/s");
    assert_has(&text, "OpenBLAS  not in this build: slow");
    assert_has(&text, "jansson   2.14: JSON");
    assert_has(&text, "plain, plain     2 tested, all as defined");
    assert_has(&text, "avx2, plain      1 tested, all as defined");
    assert_has(&text, "Everything is in order.");
    str_deinit(&text);
    doctor_deinit(doctor);
    mem_free(doctor);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    struct doctor *doctor = mem_alloc(sizeof(*doctor));
    struct str text = {0};
    fill(doctor);
    doctor->kernels[2].is_fine = false;
    doctor->kernels[2].error = 0.5;
    doctor->problems[doctor->n_problems++] = mem_strdup("kernel geglu is off");
    doctor->warnings[doctor->n_warnings++] = mem_strdup("little memory");
    doctor_print(doctor, &text);
    assert_has(&text, "avx2, plain      1 tested, 1 WRONG");
    assert_has(&text, "warning: little memory");
    assert_has(&text, "WRONG: kernel geglu is off");
    assert_null(strstr(text.text, "in order"));
    str_clear(&text);
    doctor_print_json(doctor, &text);
    json_t *root = json_loads(text.text, 0, NULL);
    assert_non_null(root);
    assert_true(json_is_false(json_object_get(root, "ok")));
    assert_int_equal(json_array_size(json_object_get(root, "problems")), 1);
    assert_true(json_is_null(json_object_get(root, "disk_free_bytes")));
    const json_t *kernels = json_object_get(root, "kernels");
    assert_int_equal(json_array_size(kernels), 3);
    assert_true(json_is_false(json_object_get(json_array_get(kernels, 2), "ok")));
    const json_t *processor = json_object_get(root, "processor");
    assert_string_equal(json_string_value(json_object_get(processor, "name")),
                        "A \"fast\" one");
    json_decref(root);
    str_deinit(&text);
    doctor_deinit(doctor);
    mem_free(doctor);
}

/* Bounds that no kernel keeps stand for a processor that computes wrongly. */
static void kernels_that_differ_are_problems(void **state)
{
    (void)state;
    char folder[] = "/tmp/lathe-doctor-XXXXXX";
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    struct doctor *doctor = mem_alloc(sizeof(*doctor));
    doctor_examine(doctor, 1e-9);
    assert_true(doctor->n_wrong_kernels > 5);
    assert_true(doctor->n_problems > 5);
    assert_non_null(strstr(doctor->problems[0], "kernel matmul ("));
    assert_non_null(strstr(doctor->problems[0], "differs from its definition by"));
    assert_true(doctor->gflops > 0.0 && doctor->gbytes_per_s > 0.0 && doctor->is_kept);
    assert_true(doctor->n_usable >= 1 && doctor->available_bytes > 0);
    doctor_deinit(doctor);
    mem_free(doctor);
    struct error err;
    assert_true(file_remove_tree(folder, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_of_a_sound_machine),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(kernels_that_differ_are_problems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
