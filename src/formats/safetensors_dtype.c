/*
 * safetensors_dtype - see safetensors_dtype.h.
 */
#include "formats/safetensors_dtype.h"

#include <string.h>

/* Types that the format knows and lathe does not (F8_E4M3, I16 and others) have no
 * entry and cannot be read. */
static const char *const names[DTYPE_COUNT] = {
    [DTYPE_F64] = "F64", [DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16",
    [DTYPE_F16] = "F16", [DTYPE_I64] = "I64", [DTYPE_I32] = "I32",
    [DTYPE_U32] = "U32", [DTYPE_U8] = "U8",   [DTYPE_BOOL] = "BOOL",
};

bool safetensors_dtype_from_name(const char *name, enum dtype *dtype)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

const char *safetensors_dtype_name(enum dtype dtype)
{
    return names[dtype];
}
