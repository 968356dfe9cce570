/*
 * fuzz_gguf - any bytes as a GGUF file, then every key with every getter, the ends of
 * every tensor, and the model that it may describe (G9).
 */
#include "base/error.h"
#include "formats/gguf.h"
#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void read_key(const struct gguf *file, const char *key)
{
    struct error err;
    int64_t integer;
    double number;
    bool flag;
    size_t n = 0;
    ASSERT(gguf_has(file, key));
    int n_kinds = 0;
    n_kinds += gguf_integer(file, key, &integer, &err);
    n_kinds += gguf_float(file, key, &number, &err);
    n_kinds += gguf_bool(file, key, &flag, &err);
    n_kinds += gguf_string(file, key, &err) != NULL;
    n_kinds += gguf_floats(file, key, &n, &err) != NULL;
    n_kinds += gguf_integers(file, key, &n, &err) != NULL;
    const struct gguf_text *texts = gguf_texts(file, key, &n, &err);
    n_kinds += texts != NULL;
    ASSERT(n_kinds <= 1);
    unsigned sum = 0;
    for (size_t i = 0; texts != NULL && i < n; i++) {
        for (size_t j = 0; j < texts[i].length; j++) {
            sum += (unsigned char)texts[i].bytes[j];
        }
    }
    ASSERT(n_kinds == 1 || sum == 0);
}

static void read_tensor(const struct gguf *file, const struct gguf_tensor *tensor)
{
    ASSERT(gguf_find(file, tensor->name) == tensor);
    const size_t n = quant_block_elements(tensor->type);
    const size_t block = quant_block_bytes(tensor->type);
    ASSERT(tensor->n_bytes >= block && tensor->n_bytes % block == 0);
    float values[256];
    ASSERT(n <= 256);
    quant_to_f32(tensor->type, tensor->bytes, values, n);
    quant_to_f32(tensor->type, tensor->bytes + tensor->n_bytes - block, values, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error err;
    struct gguf *file = gguf_view(bytes, length, "input", &err);
    if (file == NULL) {
        ASSERT(err.message[0] != '\0');
        return 0;
    }
    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        read_key(file, gguf_key_at(file, i));
    }
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        read_tensor(file, gguf_tensor_at(file, i));
    }
    struct model_config config;
    const bool is_model = model_config_read_gguf(file, "input", &config, &err);
    ASSERT(!is_model || config.L >= 1);
    gguf_close(file);
    return 0;
}
