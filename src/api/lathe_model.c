/*
 * lathe_model - a model through the public interface: facts, tensors, writing.
 */
#include "api/lathe_parts.h"
#include "backend/backend.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/tokenizer.h"
#include "text/tokenizer_write.h"

/* A model without a tokenizer is still a model: what needs one says so. */
static bool open_model(struct lathe_model *model, const char *adapter,
                       struct error *err)
{
    if (!model_source_open(&model->source, model->path, true, false, err) ||
        (adapter != NULL && !model_source_open_adapter(&model->source, adapter, err))) {
        return false;
    }
    struct error ignored;
    model->tokenizer.tokenizer = model_source_tokenizer(model->path, &ignored);
    if (model->tokenizer.tokenizer == NULL) {
        log_debug("%s", ignored.message);
    }
    return true;
}

struct lathe_model *lathe_model_open(const char *path, const char *adapter,
                                     struct lathe_error *error)
{
    struct error err;
    struct lathe_model *model = mem_alloc(sizeof(*model));
    model->path = mem_strdup(path);
    if (!open_model(model, adapter, &err)) {
        lathe_model_close(model);
        lathe_report(error, &err);
        return NULL;
    }
    return model;
}

void lathe_model_close(struct lathe_model *model)
{
    if (model == NULL) {
        return;
    }
    tokenizer_destroy(model->tokenizer.tokenizer);
    model_source_close(&model->source);
    mem_free(model->path);
    mem_free(model);
}

int64_t lathe_model_fact(const struct lathe_model *model, int fact)
{
    const struct model_config *config = &model->source.config;
    switch ((enum lathe_fact)fact) {
    case LATHE_FACT_PARAMETERS:
        return model->source.params->n_elements;
    case LATHE_FACT_LAYERS:
        return config->L;
    case LATHE_FACT_WIDTH:
        return config->D;
    case LATHE_FACT_HEADS:
        return config->H;
    case LATHE_FACT_VOCABULARY:
        return config->V;
    case LATHE_FACT_WINDOW:
        return config->window;
    case LATHE_FACT_POSITIONS:
        return config->max_positions;
    }
    UNREACHABLE();
}

const char *lathe_model_family(const struct lathe_model *model)
{
    return model_family_name(model->source.config.family);
}

const struct lathe_tokenizer *lathe_model_tokenizer(const struct lathe_model *model)
{
    return model->tokenizer.tokenizer == NULL ? NULL : &model->tokenizer;
}

int lathe_model_n_tensors(const struct lathe_model *model)
{
    return model->source.params->n;
}

void lathe_model_tensor(const struct lathe_model *model, int i,
                        struct lathe_tensor *tensor)
{
    ASSERT(0 <= i && i < model->source.params->n);
    const struct param_info *info = &model->source.params->info[i];
    *tensor = (struct lathe_tensor){.name = info->name,
                                    .type = weights_type_name(model->source.weights, i),
                                    .rank = info->rank,
                                    .dim = {info->dim[0], info->dim[1]}};
}

/* A weights_read_fn takes any pointer, though nothing is written through it. */
static void *source_of(const struct lathe_model *model)
{
    return (void *)(uintptr_t)&model->source;
}

bool lathe_model_read(const struct lathe_model *model, int i, int64_t first,
                      int64_t n_rows, float *target, struct lathe_error *error)
{
    ASSERT(0 <= i && i < model->source.params->n);
    const int64_t rows = model->source.params->info[i].dim[0];
    ASSERT(0 <= first && first <= rows && 0 <= n_rows && n_rows <= rows - first);
    struct error err;
    return model_source_read(source_of(model), i, first, n_rows, target, &err) ||
           lathe_report(error, &err);
}

bool lathe_model_write(const struct lathe_model *model, const char *folder,
                       const char *dtype, struct lathe_error *error)
{
    struct error err;
    enum dtype type;
    if (!dtype_from_name(dtype, &type) ||
        (type != DTYPE_F32 && type != DTYPE_BF16 && type != DTYPE_F16)) {
        error_set(&err, ERROR_USAGE, "dtype '%s': expected f32, bf16 or f16", dtype);
        return lathe_report(error, &err);
    }
    const struct weights_output output = {
        .config = &model->source.config,
        .params = model->source.params,
        .dtype = type,
        .read = model_source_read,
        .context = source_of(model),
        .source_path = model->path,
        .write_tokenizer = tokenizer_write_from,
    };
    return weights_write_folder(folder, &output, &err) || lathe_report(error, &err);
}

void lathe_model_set_threads(struct lathe_model *model, int n_threads)
{
    ASSERT(n_threads >= 0);
    model->n_threads = n_threads;
}

struct engine *lathe_model_engine(const struct lathe_model *model, struct error *err)
{
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {.n_threads = model->n_threads,
                                            .isa = BACKEND_ISA_BEST};
    return backend_create_cpu(&mesh, 0, 1, &options, err);
}
