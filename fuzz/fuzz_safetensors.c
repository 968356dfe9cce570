/*
 * fuzz_safetensors - any bytes as a safetensors file, then every byte of every tensor
 * (G9).
 */
#include <string.h>

#include "base/error.h"
#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error err;
    struct safetensors *file = safetensors_view(bytes, length, "input", &err);
    if (file == NULL) {
        ASSERT(err.message[0] != '\0');
        return 0;
    }
    size_t covered = 0;
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct tensor_view *view = safetensors_at(file, i);
        ASSERT(safetensors_find(file, view->name) == view);
        covered += view->n_bytes;
        unsigned sum = 0;
        for (size_t j = 0; j < view->n_bytes; j++) {
            sum += view->bytes[j];
        }
        ASSERT(sum <= 255 * view->n_bytes);
        if (dtype_is_float(view->dtype) && view->n_bytes > 0) {
            float last;
            tensor_view_to_f32(view, tensor_view_n_elements(view) - 1, 1, &last);
        }
    }
    ASSERT(covered <= length);
    const char *format = safetensors_metadata(file, "format");
    ASSERT(format == NULL || strlen(format) <= length);
    safetensors_close(file);
    return 0;
}
