/*
 * attributes - comparing them. Field by field: padding bytes have no value.
 */
#include "graph/graph.h"

/* Bit by bit, so that -0.0 and 0.0 differ and NaN equals itself. */
static bool same_double(double a, double b)
{
    union {
        double number;
        uint64_t bits;
    } x = {.number = a}, y = {.number = b};
    return x.bits == y.bits;
}

/* Fields past n_axes or the rank are zero in all attributes, so they compare too. */
static bool same_arrays(const struct attributes *a, const struct attributes *b)
{
    for (int i = 0; i < SHAPE_MAX_RANK; i++) {
        if (a->axes[i] != b->axes[i] || a->start[i] != b->start[i] ||
            a->limit[i] != b->limit[i]) {
            return false;
        }
    }
    return type_shape_equal(&a->shape, &b->shape) &&
           placement_equal(&a->placement, &b->placement);
}

/* Fields of the composites, and lengths. */
static bool same_numbers(const struct attributes *a, const struct attributes *b)
{
    return same_double(a->value, b->value) && same_double(a->eps, b->eps) &&
           same_double(a->theta, b->theta) && same_double(a->factor, b->factor) &&
           same_double(a->z_loss, b->z_loss) &&
           same_double(a->label_smoothing, b->label_smoothing) &&
           a->pairs == b->pairs && a->window == b->window &&
           a->ignore_row == b->ignore_row && a->size == b->size;
}

/* Fields with few values. */
static bool same_choices(const struct attributes *a, const struct attributes *b)
{
    return a->n_axes == b->n_axes && a->axis == b->axis &&
           a->has_placement == b->has_placement && a->dtype == b->dtype &&
           a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->compare == b->compare && a->mesh_axis == b->mesh_axis &&
           a->reduce == b->reduce && a->purpose == b->purpose &&
           a->adds_one == b->adds_one && a->with_gradient == b->with_gradient &&
           a->freezes_table == b->freezes_table &&
           a->freezes_weight == b->freezes_weight &&
           a->n_iterations == b->n_iterations && a->n_carries == b->n_carries &&
           a->n_stacked == b->n_stacked;
}

/* A field that is added to the struct has to be added here too: nodes that differ in it
 * alone would be merged. */
bool attributes_equal(const struct attributes *a, const struct attributes *b)
{
    return same_arrays(a, b) && same_numbers(a, b) && same_choices(a, b);
}
