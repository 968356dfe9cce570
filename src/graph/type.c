/*
 * type - making, comparing and printing types; sizes with checked arithmetic.
 */
#include "graph/type.h"

#include <stdio.h>

#include "base/mem.h"

/* Unused entries stay 0, so that shapes can be compared and hashed field by field. */
struct shape type_shape(int rank, const int64_t *dim)
{
    ASSERT(rank >= 0 && rank <= SHAPE_MAX_RANK);
    struct shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        shape.dim[i] = dim[i];
    }
    return shape;
}

/* The placement is zero: the same on every rank. */
struct type type_make(enum dtype dtype, int rank, const int64_t *dim)
{
    return (struct type){.dtype = dtype, .shape = type_shape(rank, dim)};
}

struct type type_scalar(enum dtype dtype)
{
    return type_make(dtype, 0, NULL);
}

/* Sizes come from settings and model files that were checked before: that they fit into
 * 63 bits is an assertion here. */
int64_t type_shape_elements(const struct shape *shape)
{
    /* A scalar has one element. */
    size_t n = 1;
    for (int i = 0; i < shape->rank; i++) {
        ASSERT(shape->dim[i] >= 0);
        const bool fits = mem_size_mul(n, (size_t)shape->dim[i], &n);
        ASSERT(fits && n <= INT64_MAX);
    }
    return (int64_t)n;
}

int64_t type_elements(const struct type *type)
{
    return type_shape_elements(&type->shape);
}

/* Elements times their size; neither product may wrap around. */
size_t type_bytes(const struct type *type)
{
    size_t bytes = 0;
    const bool fits = mem_size_mul((size_t)type_shape_elements(&type->shape),
                                   dtype_bytes(type->dtype), &bytes);
    ASSERT(fits);
    return bytes;
}

bool type_shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i]) {
            return false;
        }
    }
    return true;
}

bool type_equal(const struct type *a, const struct type *b)
{
    return a->dtype == b->dtype && type_shape_equal(&a->shape, &b->shape) &&
           placement_equal(&a->placement, &b->placement);
}

/* All splits of a placement, `by` dimensions further right (left if negative). */
static struct placement moved_splits(struct placement placement, int by)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        struct place *place = &placement.axis[axis];
        if (place->kind == PLACE_SPLIT) {
            place->dim += by;
            ASSERT(place->dim >= 0); /* the stack itself is never split */
        }
    }
    return placement;
}

struct type type_slice(const struct type *stacked, int depth)
{
    ASSERT(depth >= 0 && depth <= stacked->shape.rank);
    return (struct type){
        .dtype = stacked->dtype,
        .shape = type_shape(stacked->shape.rank - depth, stacked->shape.dim + depth),
        .placement = moved_splits(stacked->placement, -depth),
    };
}

struct type type_stack(const struct type *slice, int64_t n)
{
    ASSERT(slice->shape.rank < SHAPE_MAX_RANK);
    int64_t dim[SHAPE_MAX_RANK] = {n};
    for (int i = 0; i < slice->shape.rank; i++) {
        dim[i + 1] = slice->shape.dim[i];
    }
    return (struct type){
        .dtype = slice->dtype,
        .shape = type_shape(slice->shape.rank + 1, dim),
        .placement = moved_splits(slice->placement, 1),
    };
}

const char *type_format(char buffer[192], const struct type *type)
{
    /* Six dimensions of at most 13 digits and a placement of at most 95 bytes fit;
     * wider numbers are cut. */
    int length = snprintf(buffer, 192, "%s[", dtype_name(type->dtype));
    for (int i = 0; i < type->shape.rank && length < 90; i++) {
        length += snprintf(buffer + length, (size_t)(192 - length), "%s%lld",
                           i == 0 ? "" : ",", (long long)type->shape.dim[i]);
    }
    char placement[96];
    placement_format(placement, &type->placement);
    snprintf(buffer + length, (size_t)(192 - length), "]%.80s", placement);
    return buffer;
}
