/*
 * op_tensor - an array of the whole mesh in f64, its numbers, and its parts on the ranks.
 */
#ifndef SUPPORT_OP_TENSOR_H
#define SUPPORT_OP_TENSOR_H

#include "support/op_cases.h"

struct op_tensor {
    char name[24];      /* x0, seed0, y0, dx0 */
    struct type type;   /* local */
    struct shape shape; /* whole */
    int64_t n;
    double *data; /* row-major */
};

/* All zeros; type: what one rank holds. */
void op_tensor_init(struct op_tensor *tensor, const char *name, const struct type *type,
                    const struct mesh *mesh);
void op_tensor_deinit(struct op_tensor *tensor);

/* The case's numbers for the argument of that name: x0 .. or seed0 ... */
void op_tensor_fill(struct op_tensor *tensor, const struct op_case *op_case);
void op_tensor_round_to_bf16(struct op_tensor *tensor);

/* The part of a rank, in the type's dtype, into host; of partial values a share. `start`
 * is taken off each element. */
void op_tensor_cut(const struct op_tensor *tensor, const struct mesh *mesh, int rank,
                   int64_t start, void *host);

/* Adds the part of a rank to where it belongs. */
void op_tensor_add_part(struct op_tensor *tensor, const struct mesh *mesh, int rank,
                        const void *host);

#endif
