/*
 * fuzz_adapter - any bytes as an adapter folder: up to the first NUL adapter_config.json,
 * behind it adapter_model.safetensors, for the model of tests/golden/gemma3-tiny (G9).
 *
 * What is accepted is read: every adapter, and every weight with its adapter in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/lora.h"
#include "model/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Two files that are written again for each input; gone with the process. */
static char folder[64];

static void remove_folder(void)
{
    struct error ignored;
    if (!file_remove_tree(folder, &ignored)) {
        fprintf(stderr, "%s\n", ignored.message);
    }
}

static void put(const char *name, const void *bytes, size_t length)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ASSERT(file != NULL && fwrite(bytes, 1, length, file) == length);
    ASSERT(fclose(file) == 0);
}

/* The model's own weights are all one here. */
struct ones {
    struct lora *lora;
    const struct params *params;
};

/* A weights_read_fn over the two. */
static bool read_rows(void *context, int param, int64_t first_row, int64_t n_rows,
                      float *target, struct error *err)
{
    const struct ones *ones = context;
    if (param >= ones->params->n_model) {
        return lora_read(ones->lora, param, first_row, n_rows, target, err);
    }
    for (int64_t i = 0; i < n_rows * ones->params->info[param].dim[1]; i++) {
        target[i] = 1.0F;
    }
    return true;
}

static void read_all(struct lora *lora, const struct params *params)
{
    struct error err;
    struct ones ones = {.lora = lora, .params = params};
    struct lora_merge merge = {.params = params, .read = read_rows, .context = &ones};
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        float *values = mem_alloc_array((size_t)info->n_elements, sizeof(*values));
        const bool done =
            i < params->n_model
                ? lora_merged_read(&merge, i, 0, info->dim[0], values, &err)
                : lora_read(lora, i, 0, info->dim[0], values, &err);
        ASSERT(done);
        mem_free(values);
    }
    ASSERT(lora_options_of(lora)->n_targets * 2 == params->n - params->n_model);
    ASSERT(lora_base_name(lora) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct model_config config;
    struct error err = {.message = ""};
    if (folder[0] == '\0') {
        /* Keys that are not known give a warning each. */
        log_set_level(LOG_ERROR);
        strcpy(folder, "/tmp/lathe-fuzz-adapter-XXXXXX");
        ASSERT(mkdtemp(folder) != NULL);
        atexit(remove_folder);
        ASSERT(model_config_read_folder("tests/golden/gemma3-tiny", &config, &err));
    }
    const uint8_t *end = length == 0 ? NULL : memchr(bytes, 0, length);
    const size_t n = end == NULL ? length : (size_t)(end - bytes);
    put("adapter_config.json", bytes, n);
    put("adapter_model.safetensors", end == NULL ? bytes : end + 1,
        end == NULL ? 0 : length - n - 1);
    struct params *params = params_create(&config);
    struct lora *lora = lora_open(folder, params, &err);
    if (lora == NULL) {
        ASSERT(err.message[0] != '\0');
    } else {
        read_all(lora, params);
    }
    lora_close(lora);
    params_destroy(params);
    return 0;
}
