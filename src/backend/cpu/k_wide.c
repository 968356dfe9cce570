/*
 * k_wide - operands and results of kernels that are written for f32 and take bf16 too.
 */
#include "backend/cpu/k_wide.h"

#include "backend/cpu/native.h"
#include "backend/cpu/plain.h"

/* Integers and bool do not count: they are always of the dtype that the op asks for. */
static bool is_f32_or_bf16(const struct value *value)
{
    const enum dtype dtype = value->type.dtype;
    return !dtype_is_float(dtype) || dtype == DTYPE_F32 || dtype == DTYPE_BF16;
}

bool wide_takes(const struct node *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        if (!is_f32_or_bf16(node->inputs[i])) {
            return false;
        }
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (!is_f32_or_bf16(node->outputs[i])) {
            return false;
        }
    }
    return true;
}

bool wide_has_bf16(const struct node *node)
{
    bool found = false;
    for (int i = 0; i < node->n_inputs; i++) {
        found = found || node->inputs[i]->type.dtype == DTYPE_BF16;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        found = found || node->outputs[i]->type.dtype == DTYPE_BF16;
    }
    return found;
}

size_t wide_room_bytes(const struct node *node, int64_t n_rows, int64_t n)
{
    return wide_has_bf16(node) ? (size_t)(n_rows * n) * sizeof(float) : 0;
}

struct wide wide_input(const struct kernel_call *call, int local_rank, int index)
{
    return (struct wide){
        .native = call->native,
        .dtype = call->node->inputs[index]->type.dtype,
        .data = call->ranks[local_rank].inputs[index],
    };
}

struct wide wide_output(const struct kernel_call *call, int local_rank, int index)
{
    return (struct wide){
        .native = call->native,
        .dtype = call->node->outputs[index]->type.dtype,
        .data = call->ranks[local_rank].outputs[index],
    };
}

/* The array as what it holds. */
static float *as_f32(const struct wide *wide)
{
    return (float *)(void *)wide->data;
}

static uint16_t *as_bf16(const struct wide *wide)
{
    return (uint16_t *)(void *)wide->data;
}

const float *wide_read(const struct wide *wide, int64_t at, int64_t n, float *room)
{
    if (wide->dtype == DTYPE_F32) {
        return as_f32(wide) + at;
    }
    wide->native->widen_bf16(as_bf16(wide) + at, n, room);
    return room;
}

float *wide_target(const struct wide *wide, int64_t at, float *room)
{
    return wide->dtype == DTYPE_F32 ? as_f32(wide) + at : room;
}

void wide_store(const struct wide *wide, int64_t at, int64_t n, const float *room)
{
    if (wide->dtype == DTYPE_BF16) {
        wide->native->round_bf16(room, n, as_bf16(wide) + at);
    }
}

/* The two pairs that a step in bf16 is full of are vectors; plain_cast knows all. */
void wide_convert(const struct native *native, enum dtype from, const void *x,
                  enum dtype to, void *y, int64_t n)
{
    if (from == DTYPE_BF16 && to == DTYPE_F32) {
        native->widen_bf16(x, n, y);
    } else if (from == DTYPE_F32 && to == DTYPE_BF16) {
        native->round_bf16(x, n, y);
    } else {
        plain_cast(from, x, to, y, n);
    }
}

/* ---- whole arrays ---- */

static const struct type *type_of(const struct node *node,
                                  const struct wide_array *array)
{
    return array->is_result ? &node->outputs[array->index]->type
                            : &node->inputs[array->index]->type;
}

/* Copies begin at whole cache lines. */
static size_t copy_bytes(const struct type *type)
{
    const int64_t bytes = type_elements(type) * (int64_t)sizeof(float);
    return type->dtype == DTYPE_BF16 ? (size_t)base_round_up(bytes, 64) : 0;
}

size_t wide_copies_bytes(const struct node *node, const struct wide_array *arrays,
                         int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += copy_bytes(type_of(node, &arrays[i]));
    }
    return bytes;
}

/* Tasks of one array in one direction. */
static int64_t count_tasks(const struct node *node, const struct wide_array *array,
                           bool is_result)
{
    const struct type *type = type_of(node, array);
    return array->is_result == is_result && type->dtype == DTYPE_BF16
               ? base_div_up(type_elements(type), KERNEL_CHUNK)
               : 0;
}

int64_t wide_copies_tasks(const struct node *node, const struct wide_array *arrays,
                          int n, bool is_result)
{
    int64_t tasks = 0;
    for (int i = 0; i < n; i++) {
        tasks += count_tasks(node, &arrays[i], is_result);
    }
    return tasks;
}

/* The array's own memory. */
static struct wide wide_of(const struct kernel_call *call, int local_rank,
                           const struct wide_array *array)
{
    return array->is_result ? wide_output(call, local_rank, array->index)
                            : wide_input(call, local_rank, array->index);
}

float *wide_copies_get(const struct kernel_call *call, int local_rank,
                       const struct wide_array *arrays, int which, void *scratch)
{
    const struct wide wide = wide_of(call, local_rank, &arrays[which]);
    if (wide.dtype != DTYPE_BF16) {
        return as_f32(&wide);
    }
    unsigned char *bytes = scratch;
    const size_t before = wide_copies_bytes(call->node, arrays, which);
    return (float *)(void *)(bytes + before);
}

/* Tasks count through the arrays in their order. */
void wide_copies_run(const struct kernel_call *call, int local_rank,
                     const struct wide_array *arrays, int n, bool is_result,
                     void *scratch, int64_t task)
{
    int i = 0;
    while (i < n && task >= count_tasks(call->node, &arrays[i], is_result)) {
        task -= count_tasks(call->node, &arrays[i], is_result);
        i++;
    }
    ASSERT(i < n);
    const struct wide wide = wide_of(call, local_rank, &arrays[i]);
    float *copy = wide_copies_get(call, local_rank, arrays, i, scratch);
    const int64_t total = type_elements(type_of(call->node, &arrays[i]));
    const int64_t at = task * KERNEL_CHUNK;
    const int64_t count = base_min(KERNEL_CHUNK, total - at);
    if (is_result) {
        wide_store(&wide, at, count, copy + at);
    } else {
        wide.native->widen_bf16(as_bf16(&wide) + at, count, copy + at);
    }
}
