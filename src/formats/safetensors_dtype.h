/*
 * safetensors_dtype - element types as safetensors headers spell them.
 *
 * Shared by the reader and the writer; nothing else needs it.
 */
#ifndef FORMATS_SAFETENSORS_DTYPE_H
#define FORMATS_SAFETENSORS_DTYPE_H

#include "base/base.h"
#include "base/dtype.h"

/* "BF16" and so on; false for a type that lathe does not know. */
bool safetensors_dtype_from_name(const char *name, enum dtype *dtype);
const char *safetensors_dtype_name(enum dtype dtype);

#endif
