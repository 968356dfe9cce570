/*
 * bench_shape - see the header.
 */
#include "train/bench_shape.h"

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

/* A name of the table comes first: no folder is looked for then. */
bool bench_shape_open(struct model_source *source, const char *name, struct error *err)
{
    *source = (struct model_source){.path = name};
    if (model_config_named(name, &source->config)) {
        source->params = params_create(&source->config);
        return true;
    }
    if (file_exists(name)) {
        return model_source_open(source, name, false, false, err);
    }
    struct str names = {0};
    for (int i = 0; model_config_name(i) != NULL; i++) {
        str_printf(&names, "%s%s", i == 0 ? "" : ", ", model_config_name(i));
    }
    error_set(err, ERROR_USAGE,
              "--model-shape %s: no such shape and no such model; shapes are %s", name,
              str_text(&names));
    str_deinit(&names);
    return false;
}

/* The table of embeddings is looked up at the start, but it is also the head. */
double bench_shape_token_bytes(const struct model_source *source, size_t bytes)
{
    double total = 0.0;
    for (int i = 0; i < source->params->n_model; i++) {
        const struct param_info *info = &source->params->info[i];
        if (info->rank == 2 && info->role != PARAM_PLE_TABLE) {
            total += (double)info->n_elements * (double)bytes;
        }
    }
    return total;
}
