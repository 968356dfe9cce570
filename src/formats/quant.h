/*
 * quant - the block formats of GGUF tensors, turned into f32.
 *
 * A row is a whole number of blocks; a block holds block_elements values in block_bytes
 * bytes with shared scales. Results are bit-identical with the reference (gguf-py): the
 * same f32 operations in the same order.
 */
#ifndef FORMATS_QUANT_H
#define FORMATS_QUANT_H

#include "base/base.h"

/* Values are the type numbers in GGUF files. */
enum quant_type {
    QUANT_F32 = 0,
    QUANT_F16 = 1,
    QUANT_Q5_0 = 6,
    QUANT_Q8_0 = 8,
    QUANT_Q4_K = 12,
    QUANT_Q6_K = 14,
    QUANT_BF16 = 30,
};

/* The type with this number in a file; false when it is none of those above. */
bool quant_type_from_number(uint32_t number, enum quant_type *type);

const char *quant_name(enum quant_type type); /* "Q8_0" */
size_t quant_block_elements(enum quant_type type);
size_t quant_block_bytes(enum quant_type type);

/* bytes[] holds n elements (a multiple of block_elements), any alignment; target[n]. */
void quant_to_f32(enum quant_type type, const unsigned char *bytes, float *target,
                  size_t n);

#endif
