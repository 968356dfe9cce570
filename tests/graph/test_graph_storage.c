/*
 * Groups of values in one memory: views, offsets, overwritten operands, readers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "graph/build.h"
#include "graph/graph_storage.h"

static void views_and_overwritten_operands_share_memory(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *acc =
        build_input(graph, "acc", type_make(DTYPE_F32, 2, (int64_t[]){4, 4}));
    struct value *a = build_tanh(graph, acc);
    struct value *sum = build_matmul_into(graph, a, a, false, false, acc, NULL);
    struct value *row = build_slice_axis(graph, sum, 0, 2, 3);
    struct value *flat = build_reshape(graph, row, type_shape(1, (int64_t[]){4}));
    struct value *column = build_slice_axis(graph, sum, 1, 0, 1);
    struct graph_storage s = graph_storage_create(graph, NULL);
    assert_int_equal(s.root[a->id], a->id);
    assert_int_equal(s.root[sum->id], acc->id);
    assert_int_equal(s.root[flat->id], acc->id);
    assert_int_equal(s.offset[flat->id], 2 * 4 * 4);
    assert_int_equal(s.root[column->id], column->id); /* not one run: its own memory */
    assert_true(graph_storage_is_derived(&s, flat->id, sum->node));
    assert_false(graph_storage_is_derived(&s, acc->id, sum->node));
    assert_true(graph_node_is_argument(acc->node) &&
                !graph_node_is_argument(sum->node));

    int n_members = 0;
    for (int v = s.first_member[acc->id]; v >= 0; v = s.next_member[v]) {
        n_members++;
    }
    assert_int_equal(n_members, 4);
    /* acc is read by tanh and by the product, in this order */
    assert_int_equal(s.reader_start[acc->id + 1] - s.reader_start[acc->id], 2);
    assert_ptr_equal(s.readers[s.reader_start[acc->id]], a->node);
    assert_ptr_equal(s.readers[s.reader_start[acc->id] + 1], sum->node);
    graph_storage_deinit(&s);

    bool *breaks = mem_alloc_array((size_t)graph->next_node_id, sizeof(bool));
    breaks[sum->node->id] = true;
    s = graph_storage_create(graph, breaks);
    assert_int_equal(s.root[sum->id], sum->id);
    assert_int_equal(s.root[flat->id], sum->id);
    graph_storage_deinit(&s);
    mem_free(breaks);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_and_overwritten_operands_share_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
