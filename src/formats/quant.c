/*
 * quant - see quant.h. The block layouts, all little-endian, d and m are f16:
 *
 *     Q8_0   32 values:  d, 32 x i8                            w = d q
 *     Q5_0   32 values:  d, 32 high bits, 16 bytes of 2 x 4 bits   w = d (q - 16)
 *     Q4_K  256 values:  d, m, 8 x (6-bit scale, 6-bit min), 128 bytes  w = d s q - m n
 *     Q6_K  256 values:  128 bytes of low 4 bits, 64 of high 2 bits, 16 x i8 scale, d
 *                                                              w = d s (q - 32)
 *
 * Every product is a statement of its own, so that no compiler fuses it with the sum
 * that follows: the reference rounds after each.
 */
#include "formats/quant.h"

#include <string.h>

#include "base/dtype.h"

/* One row per type; sizes of the K types count their packed scales in. */
static const struct quant_row {
    enum quant_type type;
    const char *name;
    size_t elements, bytes; /* per block */
} rows[] = {
    {QUANT_F32, "F32", 1, 4},       {QUANT_F16, "F16", 1, 2},
    {QUANT_BF16, "BF16", 1, 2},     {QUANT_Q8_0, "Q8_0", 32, 34},
    {QUANT_Q5_0, "Q5_0", 32, 22},   {QUANT_Q4_K, "Q4_K", 256, 144},
    {QUANT_Q6_K, "Q6_K", 256, 210},
};

/* Numbers are sparse, so the table is searched; that happens per tensor or per call,
 * not per block. */
static const struct quant_row *find_row(uint32_t number)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        if ((uint32_t)rows[i].type == number) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The only one that takes any number; the others are asked about types that were
 * checked. */
bool quant_type_from_number(uint32_t number, enum quant_type *type)
{
    const struct quant_row *row = find_row(number);
    if (row == NULL) {
        return false;
    }
    *type = row->type;
    return true;
}

const char *quant_name(enum quant_type type)
{
    const struct quant_row *row = find_row((uint32_t)type);
    ASSERT(row != NULL);
    return row->name;
}

size_t quant_block_elements(enum quant_type type)
{
    const struct quant_row *row = find_row((uint32_t)type);
    ASSERT(row != NULL);
    return row->elements;
}

size_t quant_block_bytes(enum quant_type type)
{
    const struct quant_row *row = find_row((uint32_t)type);
    ASSERT(row != NULL);
    return row->bytes;
}

/* Two single bytes, as blocks have sizes of all kinds and so no alignment. */
static float read_f16(const unsigned char *bytes)
{
    return dtype_f32_from_f16((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* block: d at 0, q[32] at 2. w[i] = d q[i]. */
static void q8_0_block(const unsigned char *block, float *target)
{
    const float d = read_f16(block);
    for (int i = 0; i < 32; i++) {
        target[i] = d * (float)(int8_t)block[2 + i];
    }
}

/* block: d at 0, high bits at 2, low bits at 6. q[i] = low 4 bits | high bit << 4; byte
 * i holds the low bits of values i and i + 16. w[i] = d (q[i] - 16). */
static void q5_0_block(const unsigned char *block, float *target)
{
    const float d = read_f16(block);
    const uint32_t high = (uint32_t)block[2] | (uint32_t)block[3] << 8 |
                          (uint32_t)block[4] << 16 | (uint32_t)block[5] << 24;
    const unsigned char *low = block + 6;
    for (int i = 0; i < 16; i++) {
        const int first = (low[i] & 15) | (int)(high >> i & 1) << 4;
        const int second = low[i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
        target[i] = d * (float)(first - 16);
        target[i + 16] = d * (float)(second - 16);
    }
}

/* Scale and min of group i (of 8) from the 12 packed bytes. The first four groups have
 * their six bits in one byte; the others have four bits in bytes 8 .. 11 and the upper
 * two in the spare bits of the first eight. */
static void q4_k_group(const unsigned char *packed, int i, int *scale, int *min)
{
    if (i < 4) {
        *scale = packed[i] & 63;
        *min = packed[i + 4] & 63;
    } else {
        *scale = (packed[i + 4] & 15) | packed[i - 4] >> 6 << 4;
        *min = packed[i + 4] >> 4 | packed[i] >> 6 << 4;
    }
}

/* Groups 2k and 2k + 1 are the low and high halves of the same 32 bytes. block: d at 0,
 * m at 2, packed scales at 4, quants at 16. w = (d scale) q - (m min), each product
 * rounded before the difference. */
static void q4_k_block(const unsigned char *block, float *target)
{
    const float d = read_f16(block);
    const float m = read_f16(block + 2);
    const unsigned char *quants = block + 16;
    for (int group = 0; group < 8; group++) {
        int scale;
        int min;
        q4_k_group(block + 4, group, &scale, &min);
        const float group_d = d * (float)scale;
        const float group_m = m * (float)min;
        const unsigned char *bytes = quants + group / 2 * 32;
        const int shift = group % 2 * 4;
        for (int i = 0; i < 32; i++) {
            const float product = group_d * (float)(bytes[i] >> shift & 15);
            target[group * 32 + i] = product - group_m;
        }
    }
}

/* Two halves of 128 values; in each, value i = 32 part + j takes 4 bits of low byte 32
 * (part mod 2) + j and 2 bits of high byte j. block: low bits at 0, high bits at 128,
 * scales at 192, d at 208. w = (d scale) (q - 32), one scale for 16 values. */
static void q6_k_block(const unsigned char *block, float *target)
{
    const float d = read_f16(block + 208);
    for (int half = 0; half < 2; half++) {
        const unsigned char *low = block + half * 64;
        const unsigned char *high = block + 128 + half * 32;
        const unsigned char *scales = block + 192 + half * 8;
        for (int i = 0; i < 128; i++) {
            const int part = i / 32;
            const int j = i % 32;
            const int low_bits = low[part % 2 * 32 + j] >> part / 2 * 4 & 15;
            const int high_bits = high[j] >> part * 2 & 3;
            const float scale = d * (float)(int8_t)scales[i / 16];
            target[half * 128 + i] = scale * (float)((low_bits | high_bits << 4) - 32);
        }
    }
}

/* The plain types are converted value by value, the others block by block. F32 is
 * copied, as all machines that this runs on are little-endian. */
void quant_to_f32(enum quant_type type, const unsigned char *bytes, float *target,
                  size_t n)
{
    const size_t elements = quant_block_elements(type);
    const size_t block_bytes = quant_block_bytes(type);
    ASSERT(n % elements == 0);
    void (*convert_block)(const unsigned char *block, float *target) = NULL;
    switch (type) {
    case QUANT_F32:
        memcpy(target, bytes, n * 4);
        return;
    case QUANT_F16:
        for (size_t i = 0; i < n; i++) {
            target[i] = read_f16(bytes + 2 * i);
        }
        return;
    case QUANT_BF16:
        for (size_t i = 0; i < n; i++) {
            target[i] =
                dtype_f32_from_bf16((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
        }
        return;
    case QUANT_Q8_0:
        convert_block = q8_0_block;
        break;
    case QUANT_Q5_0:
        convert_block = q5_0_block;
        break;
    case QUANT_Q4_K:
        convert_block = q4_k_block;
        break;
    case QUANT_Q6_K:
        convert_block = q6_k_block;
        break;
    }
    for (size_t i = 0; i < n; i += elements) {
        convert_block(bytes, target + i);
        bytes += block_bytes;
    }
}
