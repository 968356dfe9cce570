/*
 * op_tensor - see op_tensor.h. Where an element lies follows from the placement in the
 * type alone.
 */
#include "support/op_tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/random.h"

/* Position in the whole array of local element `local` of a rank. */
static int64_t whole_position(const struct op_tensor *tensor, const struct mesh *mesh,
                              int rank, int64_t local)
{
    int64_t position = 0, stride = 1;
    for (int d = tensor->shape.rank - 1; d >= 0; d--) {
        const int64_t length = tensor->type.shape.dim[d];
        const int block = placement_block(&tensor->type.placement, mesh, rank, d);
        position += (block * length + local % length) * stride;
        local /= length;
        stride *= tensor->shape.dim[d];
    }
    return position;
}

/* The share that a rank holds of a partial value: shares add up to 1. */
static double share_of(const struct placement *placement, const struct mesh *mesh,
                       int rank)
{
    double share = 1.0;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement->axis[axis].kind == PLACE_PARTIAL) {
            const int n = mesh->size[axis];
            const int c = mesh_coordinate(mesh, rank, (enum mesh_axis)axis);
            share *= 2.0 * (c + 1) / ((double)n * (n + 1));
        }
    }
    return share;
}

static void store(enum dtype dtype, void *target, int64_t i, double x)
{
    const float single = (float)x;
    switch (dtype) {
    case DTYPE_F64:
        ((double *)target)[i] = x;
        return;
    case DTYPE_F32:
        ((float *)target)[i] = single;
        return;
    case DTYPE_BF16:
        ((uint16_t *)target)[i] = dtype_bf16_from_f32(single);
        return;
    case DTYPE_I32:
        ((int32_t *)target)[i] = (int32_t)x;
        return;
    case DTYPE_U32:
        ((uint32_t *)target)[i] = (uint32_t)x;
        return;
    case DTYPE_BOOL:
        ((uint8_t *)target)[i] = x != 0.0;
        return;
    case DTYPE_F16:
    case DTYPE_I64:
    case DTYPE_U8:
    case DTYPE_COUNT:
        break;
    }
    fail_msg("no arrays of %s", dtype_name(dtype));
}

static double load(enum dtype dtype, const void *source, int64_t i)
{
    switch (dtype) {
    case DTYPE_F64:
        return ((const double *)source)[i];
    case DTYPE_F32:
        return (double)((const float *)source)[i];
    case DTYPE_BF16:
        return (double)dtype_f32_from_bf16(((const uint16_t *)source)[i]);
    case DTYPE_I32:
        return ((const int32_t *)source)[i];
    case DTYPE_U32:
        return ((const uint32_t *)source)[i];
    case DTYPE_BOOL:
        return ((const uint8_t *)source)[i];
    case DTYPE_F16:
    case DTYPE_I64:
    case DTYPE_U8:
    case DTYPE_COUNT:
        break;
    }
    fail_msg("no arrays of %s", dtype_name(dtype));
    return 0.0;
}

void op_tensor_init(struct op_tensor *tensor, const char *name, const struct type *type,
                    const struct mesh *mesh)
{
    snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    tensor->type = *type;
    tensor->shape = type->shape;
    for (int d = 0; d < type->shape.rank; d++) {
        tensor->shape.dim[d] *= placement_n_blocks(&type->placement, mesh, d);
    }
    tensor->n = type_shape_elements(&tensor->shape);
    tensor->data = mem_alloc_array((size_t)tensor->n, sizeof(double));
}

void op_tensor_deinit(struct op_tensor *tensor)
{
    mem_free(tensor->data);
}

void op_tensor_cut(const struct op_tensor *tensor, const struct mesh *mesh, int rank,
                   int64_t start, void *host)
{
    const double share = share_of(&tensor->type.placement, mesh, rank);
    for (int64_t i = 0; i < type_elements(&tensor->type); i++) {
        const double x = tensor->data[whole_position(tensor, mesh, rank, i)];
        store(tensor->type.dtype, host, i, x * share - (double)start);
    }
}

void op_tensor_add_part(struct op_tensor *tensor, const struct mesh *mesh, int rank,
                        const void *host)
{
    for (int64_t i = 0; i < type_elements(&tensor->type); i++) {
        tensor->data[whole_position(tensor, mesh, rank, i)] +=
            load(tensor->type.dtype, host, i);
    }
}

static uint64_t seed_of(const struct op_case *op_case, const char *name)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = op_case->name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    }
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    }
    return hash;
}

/* Evenly spaced and shuffled, each exact in f32. */
static void fill_float(struct op_tensor *tensor, uint64_t seed, double low, double high)
{
    int32_t *order = mem_alloc_array((size_t)tensor->n, sizeof(*order));
    random_permutation(seed, RANDOM_TEST, 0, tensor->n, order);
    const double offset = (double)random_uniform(seed, RANDOM_TEST, 1, 0);
    for (int64_t i = 0; i < tensor->n; i++) {
        const double at = ((double)order[i] + 0.1 + 0.8 * offset) / (double)tensor->n;
        tensor->data[i] = (double)(float)(low + at * (high - low));
    }
    mem_free(order);
}

static void fill_whole(struct op_tensor *tensor, uint64_t seed, double low, double high)
{
    for (int64_t i = 0; i < tensor->n; i++) {
        const double u = (double)random_uniform(seed, RANDOM_TEST, 0, (uint64_t)i);
        tensor->data[i] = floor(low + u * (high - low + 1.0));
    }
}

/* Row i of n comes from the i-th of n equal parts of the table's rows. */
static void fill_rows(struct op_tensor *tensor, uint64_t seed, int64_t n_rows)
{
    const int64_t width = n_rows / tensor->n;
    for (int64_t i = 0; i < tensor->n; i++) {
        const double u = (double)random_uniform(seed, RANDOM_TEST, 0, (uint64_t)i);
        tensor->data[i] = (double)(i * width) + floor(u * (double)width);
    }
}

/* Documents of 1 to `longest` tokens; about a fifth of them is padding. */
static void fill_first_key(struct op_tensor *tensor, uint64_t seed, int64_t longest)
{
    const int64_t T = tensor->shape.dim[1];
    int64_t start = 0, end = 0;
    bool is_padding = false;
    for (int64_t i = 0; i < tensor->n; i++) {
        const int64_t t = i % T;
        const uint64_t at = (uint64_t)i;
        if (t == 0 || t == end) {
            start = t;
            end = t + 1 + random_bits(seed, RANDOM_TEST, 0, at) % longest;
            is_padding = random_bits(seed, RANDOM_TEST, 1, at) % 5 == 0;
        }
        tensor->data[i] = (double)(is_padding ? T : start);
    }
}

void op_tensor_round_to_bf16(struct op_tensor *tensor)
{
    for (int64_t i = 0; i < tensor->n; i++) {
        const uint16_t rounded = dtype_bf16_from_f32((float)tensor->data[i]);
        tensor->data[i] = (double)dtype_f32_from_bf16(rounded);
    }
}

void op_tensor_fill(struct op_tensor *tensor, const struct op_case *op_case)
{
    const uint64_t seed = seed_of(op_case, tensor->name);
    if (tensor->name[0] == 's') {
        fill_float(tensor, seed, -1.0, 1.0);
        return;
    }
    const struct op_input *input = &op_case->inputs[tensor->name[1] - '0'];
    if (input->kind == OP_INPUT_ROWS) {
        fill_rows(tensor, seed, op_case->inputs[0].dim[0]);
    } else if (input->kind == OP_INPUT_FIRST_KEY) {
        fill_first_key(tensor, seed, (int64_t)input->high);
    } else if (dtype_is_float(tensor->type.dtype)) {
        fill_float(tensor, seed, input->low, input->high);
    } else {
        fill_whole(tensor, seed, input->low, input->high);
    }
}
