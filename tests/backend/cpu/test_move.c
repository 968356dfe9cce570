/*
 * Strided copies against index arithmetic: every element size, boxes of every kind, each
 * element of the target written by exactly one task.
 */
#include "backend/cpu/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

struct box {
    int rank;
    int64_t dim[SHAPE_MAX_RANK];
    int64_t source[SHAPE_MAX_RANK]; /* strides */
    int64_t target[SHAPE_MAX_RANK];
};

static int64_t extent(const struct box *box, const int64_t *strides)
{
    int64_t last = 0;
    for (int i = 0; i < box->rank; i++) {
        last += (box->dim[i] - 1) * strides[i];
    }
    return last + 1;
}

static void check_box(const struct box *box, size_t element_bytes)
{
    const int64_t n_source = extent(box, box->source);
    const int64_t n_target = extent(box, box->target);
    unsigned char *source = mem_alloc((size_t)n_source * element_bytes);
    unsigned char *target = mem_alloc((size_t)n_target * element_bytes);
    unsigned char *expected = mem_alloc((size_t)n_target * element_bytes);
    for (size_t i = 0; i < (size_t)n_source * element_bytes; i++) {
        source[i] = (unsigned char)(1 + i * 131 % 251);
    }
    int64_t total = 1;
    for (int i = 0; i < box->rank; i++) {
        total *= box->dim[i];
    }
    for (int64_t at = 0; at < total; at++) {
        int64_t from = 0;
        int64_t to = 0;
        int64_t rest = at;
        for (int i = box->rank - 1; i >= 0; i--) {
            from += rest % box->dim[i] * box->source[i];
            to += rest % box->dim[i] * box->target[i];
            rest /= box->dim[i];
        }
        memcpy(expected + (size_t)to * element_bytes,
               source + (size_t)from * element_bytes, element_bytes);
    }
    const struct move move =
        move_make(element_bytes, box->rank, box->dim, box->source, box->target);
    for (int64_t task = move_n_tasks(&move) - 1; task >= 0; task--) {
        move_run(&move, source, target, task);
    }
    assert_memory_equal(target, expected, (size_t)n_target * element_bytes);
    mem_free(source);
    mem_free(target);
    mem_free(expected);
}

static void boxes_are_copied(void **state)
{
    (void)state;
    static const struct box boxes[] = {
        {0, {0}, {0}, {0}},
        {1, {7}, {1}, {1}},
        {1, {40000}, {1}, {1}},              /* several tasks along one run */
        {1, {40000}, {0}, {1}},              /* one element repeated */
        {2, {70, 90}, {1, 70}, {90, 1}},     /* transposed */
        {2, {1500, 33}, {1, 1500}, {33, 1}}, /* transposed, long */
        {2, {33, 1500}, {1, 33}, {1500, 1}}, /* transposed, wide */
        {3, {5, 6, 7}, {1, 35, 5}, {42, 7, 1}},
        {3, {4, 300, 50}, {50, 200, 1}, {15000, 50, 1}}, /* heads and rows swapped */
        {3, {3, 4, 5}, {5, 0, 1}, {20, 5, 1}},           /* repeated in the middle */
        {2, {100, 3}, {1, 0}, {3, 1}},
        {2, {9, 11}, {20, 1}, {30, 1}}, /* a box out of a box */
        {2, {50, 1}, {1, 1}, {3, 1}},   /* a column */
        {2, {50, 2}, {4, 2}, {6, 3}},   /* steps on both sides */
        {4, {2, 3, 1, 4}, {12, 1, 7, 3}, {12, 4, 4, 1}},
        {6, {2, 2, 2, 2, 2, 2}, {1, 2, 4, 8, 16, 32}, {32, 16, 8, 4, 2, 1}},
    };
    static const size_t sizes[] = {1, 2, 4, 8};
    for (size_t i = 0; i < ARRAY_LENGTH(boxes); i++) {
        for (size_t s = 0; s < ARRAY_LENGTH(sizes); s++) {
            check_box(&boxes[i], sizes[s]);
        }
    }
}

static void big_moves_are_shared_out(void **state)
{
    (void)state;
    const int64_t dim[2] = {1024, 1024};
    const int64_t rows[2] = {1024, 1};
    const int64_t columns[2] = {1, 1024};
    const struct move copy = move_make(4, 2, dim, rows, rows);
    const struct move transpose = move_make(4, 2, dim, columns, rows);
    assert_int_equal(move_n_tasks(&copy), 64);
    assert_int_equal(move_n_tasks(&transpose), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_are_copied),
        cmocka_unit_test(big_moves_are_shared_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
