/*
 * Rows and whole arrays of bf16 as f32 and back, and which nodes kernels take.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/k_wide.h"
#include "backend/cpu/native.h"
#include "base/mem.h"
#include "graph/build.h"

enum { N = 37 };

/* x in f32 beside one of `dtype`. */
static const struct node *norm_of(struct graph *graph, enum dtype dtype)
{
    const int64_t dims[2] = {3, N};
    struct value *x = build_input(graph, "x", type_make(dtype, 2, dims));
    struct value *weight = build_input(graph, "w", type_make(DTYPE_F32, 1, dims + 1));
    return build_rms_norm(graph, x, weight, 1e-6, false)->node;
}

static void kernels_take_f32_and_bf16(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64};
    const bool takes[] = {true, true, false, false};
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++) {
        struct graph *graph = graph_create(&mesh);
        const struct node *node = norm_of(graph, dtypes[i]);
        assert_int_equal(wide_takes(node), takes[i]);
        assert_int_equal(kernel_takes(node), takes[i]);
        assert_int_equal(wide_has_bf16(node), dtypes[i] == DTYPE_BF16);
        assert_int_equal(wide_room_bytes(node, 2, N),
                         dtypes[i] == DTYPE_BF16 ? 2 * N * sizeof(float) : 0);
        graph_destroy(graph);
    }
}

/* f32 is used in place; bf16 goes through the room, and back with one rounding. */
static void rows_go_through_room(void **state)
{
    (void)state;
    float values[N];
    uint16_t narrow[N];
    float room[N];
    for (int i = 0; i < N; i++) {
        values[i] = 1.0F + (float)i / 300.0F; /* between numbers of bf16 */
        narrow[i] = dtype_bf16_from_f32(values[i]);
    }
    const struct native *native = native_find(BACKEND_ISA_BEST);
    const struct wide f32 = {native, DTYPE_F32, (unsigned char *)values};
    const struct wide bf16 = {native, DTYPE_BF16, (unsigned char *)narrow};
    assert_ptr_equal(wide_read(&f32, 5, 10, room), values + 5);
    assert_ptr_equal(wide_target(&f32, 5, room), values + 5);
    assert_ptr_equal(wide_read(&bf16, 5, 10, room), room);
    assert_ptr_equal(wide_target(&bf16, 5, room), room);
    for (int i = 0; i < 10; i++) {
        assert_true(room[i] == dtype_f32_from_bf16(narrow[5 + i]));
        room[i] = 3.0F + (float)i / 300.0F;
    }
    const uint16_t before = narrow[15];
    wide_store(&bf16, 5, 10, room);
    wide_store(&f32, 5, 10, room); /* there already: nothing happens */
    assert_true(values[5] == 1.0F + 5.0F / 300.0F);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(narrow[5 + i], dtype_bf16_from_f32(room[i]));
    }
    assert_int_equal(narrow[15], before);
}

/* Copies of two operands and one result, of arrays of several tasks; f32 has none. */
static void whole_arrays_are_copied(void **state)
{
    (void)state;
    const int64_t n = 2 * KERNEL_CHUNK + 5;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const struct type type = type_make(DTYPE_BF16, 1, &n);
    const struct node *node =
        build_geglu(graph, build_input(graph, "a", type), build_input(graph, "b", type))
            ->node;
    const struct wide_array arrays[] = {{false, 0}, {false, 1}, {true, 0}};
    const size_t each = (size_t)base_round_up(n * 4, 64);
    assert_int_equal(wide_copies_bytes(node, arrays, 3), 3 * each);
    assert_int_equal(wide_copies_tasks(node, arrays, 3, false), 6);
    assert_int_equal(wide_copies_tasks(node, arrays, 3, true), 3);

    uint16_t *data[3];
    for (int i = 0; i < 3; i++) {
        data[i] = mem_alloc_array((size_t)n, sizeof(uint16_t));
        for (int64_t k = 0; k < n; k++) {
            data[i][k] = dtype_bf16_from_f32((float)(k % 251) + (float)i);
        }
    }
    void *inputs[] = {data[0], data[1]};
    void *outputs[] = {data[2]};
    const struct kernel_rank rank = {.inputs = inputs, .outputs = outputs};
    const struct kernel_call call = {.node = node,
                                     .mesh = &mesh,
                                     .n_ranks = 1,
                                     .ranks = &rank,
                                     .native = native_find(BACKEND_ISA_BEST)};
    void *scratch = mem_alloc(3 * each);
    for (int task = 0; task < 6; task++) {
        wide_copies_run(&call, 0, arrays, 3, false, scratch, task);
    }
    float *copies[3];
    for (int i = 0; i < 3; i++) {
        copies[i] = wide_copies_get(&call, 0, arrays, i, scratch);
    }
    for (int64_t k = 0; k < n; k++) {
        assert_true(copies[0][k] == dtype_f32_from_bf16(data[0][k]));
        assert_true(copies[1][k] == dtype_f32_from_bf16(data[1][k]));
        copies[2][k] = (float)k * 1.001F;
    }
    for (int task = 0; task < 3; task++) {
        wide_copies_run(&call, 0, arrays, 3, true, scratch, task);
    }
    for (int64_t k = 0; k < n; k++) {
        assert_int_equal(data[2][k], dtype_bf16_from_f32((float)k * 1.001F));
    }
    for (int i = 0; i < 3; i++) {
        mem_free(data[i]);
    }
    mem_free(scratch);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_take_f32_and_bf16),
        cmocka_unit_test(rows_go_through_room),
        cmocka_unit_test(whole_arrays_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
