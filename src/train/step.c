/*
 * step - state and programs. Buffers are kept in one list by argument name; each
 * program looks its arguments and outputs up once, at creation.
 */
#include "train/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "data/batch.h"
#include "graph/build.h"

/* A compiled graph with its arguments and outputs in the graph's order. */
struct bound {
    struct program *program;   /* owned */
    struct buffer **arguments; /* borrowed from the step's state */
    struct buffer **outputs;
};

/* Batches of one kind: their inputs and the program that reads them. */
struct pass {
    struct bound bound;
    struct buffer *ids, *position, *first_key, *loss_rows, *targets, *weight, *ple_rows;
    struct buffer *dropout_seed, *dropout_step; /* NULL: no dropout */
    struct buffer *loss_sum, *token_loss; /* outputs; token_loss of evaluation only */
    int64_t C;                            /* entries of loss_rows */
};

struct named_buffer {
    const char *name; /* owned */
    struct buffer *buffer;
    bool is_borrowed; /* memory of the source */
};

struct step {
    struct engine *engine;
    struct step_options options;
    struct step_source source;  /* where parameters come from */
    struct pass grad;           /* empty unless options.trains */
    struct pass evaluate;       /* empty unless options.evaluates */
    struct bound update;        /* empty unless options.trains */
    struct named_buffer *state; /* parameters, accumulators, moments, update's inputs */
    size_t n_state, state_capacity;
    struct buffer **parameters; /* [params->n]; NULL: stays in its file */
    /* inputs, set before a run */
    struct buffer *keep, *hyper, *inverse, *clip, *update_loss_sum;
    struct buffer *rounding_seed, *rounding_step; /* NULL: to nearest */
    struct buffer *grad_norm, *applied;           /* outputs of the update */
    float *ple_staging; /* [B, T, L*P] rows of a frozen per-layer table, or NULL */
    bool has_gradients; /* sums hold something since the last update */
    int64_t n_updates;  /* that were applied */
};

/* ---- buffers by name ---- */

/* Linear, at creation only: running uses the bound lists. */
static struct buffer *find_buffer(const struct step *step, const char *name)
{
    for (size_t i = 0; i < step->n_state; i++) {
        if (strcmp(step->state[i].name, name) == 0) {
            return step->state[i].buffer;
        }
    }
    return NULL;
}

/* Where a parameter can be read as it is: frozen, and of this dtype in its source. */
static const void *view_of(const struct step *step, int param, enum dtype dtype)
{
    const struct step_source *source = &step->source;
    if (source->view == NULL || param < 0 || step->options.shape.is_trainable[param]) {
        return NULL;
    }
    enum dtype found;
    const void *bytes = source->view(source->context, param, &found);
    return bytes != NULL && found == dtype ? bytes : NULL;
}

/* The state buffer of that name, made if it is not there; borrowed for a parameter that
 * can be read where it is. */
static struct buffer *state_buffer(struct step *step, const char *name,
                                   const struct type *type, struct error *err)
{
    struct buffer *buffer = find_buffer(step, name);
    if (buffer != NULL) {
        return buffer;
    }
    const int param = params_find(step->options.shape.params, name);
    const void *bytes = view_of(step, param, type->dtype);
    buffer = bytes != NULL ? backend_buffer_borrow(step->engine, type, name, bytes, err)
                           : backend_buffer_create(step->engine, type, name, err);
    if (buffer == NULL) {
        return NULL;
    }
    step->state = mem_reserve_one(step->state, step->n_state, &step->state_capacity,
                                  sizeof(*step->state));
    step->state[step->n_state++] = (struct named_buffer){
        .name = mem_strdup(name), .buffer = buffer, .is_borrowed = bytes != NULL};
    return buffer;
}

/*
 * Compiles the graph and binds its arguments and outputs. `prefix` makes the names of
 * inputs that belong to this program alone (batches) unique; state is shared by name.
 */
static bool bind(struct step *step, struct graph *owned_graph, const char *prefix,
                 struct bound *bound, struct error *err)
{
    bound->program = backend_compile(step->engine, owned_graph, err);
    if (bound->program == NULL) {
        return false;
    }
    const struct graph *graph = backend_program_graph(bound->program);
    bound->arguments =
        mem_alloc_array((size_t)graph->n_arguments, sizeof(struct buffer *));
    bound->outputs = mem_alloc_array((size_t)graph->n_outputs, sizeof(struct buffer *));
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct value *argument = graph->arguments[i];
        const char *name = argument->node->name;
        const bool is_state = argument->node->op == OP_PARAMETER ||
                              strchr(name, '.') != NULL; /* acc.*, m.*, v.* */
        char full[400];
        snprintf(full, sizeof(full), "%s%s", is_state ? "" : prefix, name);
        bound->arguments[i] = state_buffer(step, full, &argument->type, err);
        if (bound->arguments[i] == NULL) {
            return false;
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        char full[400];
        if (output->donor != NULL) {
            /* In the donor's memory: the state's buffer is both argument and output. */
            snprintf(full, sizeof(full), "%s", output->donor->node->name);
        } else {
            snprintf(full, sizeof(full), "%sout:%s", prefix, output->name);
        }
        bound->outputs[i] = state_buffer(step, full, &output->value->type, err);
        if (bound->outputs[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Takes what bind left half done. */
static void unbind(struct bound *bound)
{
    backend_program_destroy(bound->program);
    mem_free(bound->arguments);
    mem_free(bound->outputs);
    *bound = (struct bound){0};
}

/* NULL: this program has no such argument. */
static struct buffer *prefixed(const struct step *step, const char *prefix,
                               const char *name)
{
    char full[400];
    snprintf(full, sizeof(full), "%s%s", prefix, name);
    return find_buffer(step, full);
}

/* C comes along: the batches of a pass have as many entries of loss_rows. */
static bool create_pass(struct step *step, struct graph *owned_graph,
                        const char *prefix, int64_t C, struct pass *pass,
                        struct error *err)
{
    if (!bind(step, owned_graph, prefix, &pass->bound, err)) {
        return false;
    }
    /* Gradients and losses of a batch can be lost; an update is never cut. */
    backend_program_allow_abandon(pass->bound.program);
    pass->ids = prefixed(step, prefix, "ids");
    pass->position = prefixed(step, prefix, "position");
    pass->first_key = prefixed(step, prefix, "first_key");
    pass->loss_rows = prefixed(step, prefix, "loss_rows");
    pass->targets = prefixed(step, prefix, "targets");
    pass->weight = prefixed(step, prefix, "weight");
    pass->ple_rows = prefixed(step, prefix, "ple_rows");
    pass->dropout_seed = prefixed(step, prefix, "dropout_seed");
    pass->dropout_step = prefixed(step, prefix, "dropout_step");
    pass->loss_sum = prefixed(step, prefix, "out:loss_sum");
    pass->token_loss = prefixed(step, prefix, "out:token_loss");
    pass->C = C;
    return true;
}

/* ---- creation ---- */

/* The update is built from the gradient graph before that one is handed over: compiling
 * takes it. */
static bool create_training(struct step *step, struct error *err)
{
    const struct mesh mesh = mesh_single();
    struct graph *grad = step_graphs_grad(&mesh, &step->options.shape);
    struct graph *update = step_graphs_update(&mesh, grad, step->options.is_stochastic);
    if (!create_pass(step, grad, "grad:", step->options.shape.C, &step->grad, err)) {
        graph_destroy(update);
        return false;
    }
    if (!bind(step, update, "update:", &step->update, err)) {
        return false;
    }
    step->keep = find_buffer(step, "grad:keep");
    step->hyper = find_buffer(step, "update:hyper");
    step->inverse = find_buffer(step, "update:inverse");
    step->clip = find_buffer(step, "update:clip");
    step->update_loss_sum = find_buffer(step, "update:loss_sum");
    step->rounding_seed = find_buffer(step, "update:seed");
    step->rounding_step = find_buffer(step, "update:step");
    step->grad_norm = find_buffer(step, "update:out:grad_norm");
    step->applied = find_buffer(step, "update:out:applied");
    return true;
}

static bool create_evaluation(struct step *step, struct error *err)
{
    const struct mesh mesh = mesh_single();
    struct step_shape shape = step->options.shape;
    /* Only the number of targets differs: rows and their length are those of
     * training. */
    if (step->options.evaluate_C > 0) {
        shape.C = step->options.evaluate_C;
    }
    struct graph *graph = step_graphs_evaluate(&mesh, &shape);
    return create_pass(step, graph, "evaluate:", shape.C, &step->evaluate, err);
}

/* Parameters are looked up after both programs have made theirs; one that no program
 * reads stays NULL. */
struct step *step_create(struct engine *engine, const struct step_options *options,
                         const struct step_source *source, struct error *err)
{
    const struct step_shape *shape = &options->shape;
    struct step *step = mem_alloc(sizeof(*step));
    step->engine = engine;
    step->options = *options;
    step->source = *source;
    step->parameters =
        mem_alloc_array((size_t)shape->params->n, sizeof(struct buffer *));
    if (options->trains && !create_training(step, err)) {
        goto fail;
    }
    if (options->evaluates && !create_evaluation(step, err)) {
        goto fail;
    }
    for (int i = 0; i < shape->params->n; i++) {
        step->parameters[i] = find_buffer(step, shape->params->info[i].name);
    }
    if (shape->has_ple_rows) {
        /* B * T rows of L * P numbers. */
        const size_t elements =
            (size_t)(shape->B * shape->T * shape->config->L * shape->config->P);
        step->ple_staging =
            mem_try_alloc(elements * sizeof(float), "rows of the per-layer table", err);
        if (step->ple_staging == NULL) {
            goto fail;
        }
    }
    return step;

fail:
    step_destroy(step);
    return NULL;
}

/* Programs before the buffers that they are bound to. */
void step_destroy(struct step *step)
{
    if (step == NULL) {
        return;
    }
    unbind(&step->grad.bound);
    unbind(&step->evaluate.bound);
    unbind(&step->update);
    for (size_t i = 0; i < step->n_state; i++) {
        backend_buffer_destroy(step->state[i].buffer);
        mem_free((void *)(uintptr_t)step->state[i].name);
    }
    mem_free(step->state);
    mem_free(step->parameters);
    mem_free(step->ple_staging);
    mem_free(step);
}

/* ---- parameters in and out ---- */

/* Rows that are converted at a time: about 256 Ki elements. */
static int64_t rows_at_a_time(const struct param_info *info)
{
    const int64_t elements = 1 << 18;
    return base_min(info->dim[0], base_max(1, elements / info->dim[1]));
}

/* Reads all rows into `target`, memory of the buffer's dtype. f32 comes from the file
 * right into its place; bf16 by way of a few rows in f32. */
static bool read_rows(struct step *step, int param, enum dtype dtype, void *target,
                      struct error *err)
{
    const struct step_source *source = &step->source;
    const struct param_info *info = &step->options.shape.params->info[param];
    const int64_t n_rows = info->dim[0];
    if (dtype == DTYPE_F32) {
        return source->read(source->context, param, 0, n_rows, target, err);
    }
    const int64_t step_rows = rows_at_a_time(info);
    const size_t row = (size_t)info->dim[1];
    float *rows =
        mem_try_alloc((size_t)step_rows * row * sizeof(float), info->name, err);
    bool done = rows != NULL;
    for (int64_t i = 0; done && i < n_rows; i += step_rows) {
        const int64_t n = base_min(step_rows, n_rows - i);
        done = source->read(source->context, param, i, n, rows, err);
        if (done) {
            unsigned char *at =
                (unsigned char *)target + (size_t)i * row * dtype_bytes(dtype);
            dtype_from_f32(dtype, rows, at, (size_t)n * row);
        }
    }
    mem_free(rows);
    return done;
}

/* Reads one parameter into host memory of the engine, or through staging. */
static bool load_param(struct step *step, int param, struct error *err)
{
    const struct param_info *info = &step->options.shape.params->info[param];
    struct buffer *buffer = step->parameters[param];
    const enum dtype dtype = backend_buffer_type(buffer)->dtype;
    /* Where the engine's memory is the host's, the file's rows are converted right into
     * it. */
    void *host = backend_buffer_host(buffer, 0);
    if (host != NULL) {
        return read_rows(step, param, dtype, host, err);
    }
    void *whole =
        mem_try_alloc((size_t)info->n_elements * dtype_bytes(dtype), info->name, err);
    const bool done = whole != NULL && read_rows(step, param, dtype, whole, err) &&
                      backend_upload(buffer, 0, whole, err);
    mem_free(whole);
    return done;
}

/* A parameter without a buffer stays in its file, and so does one that is read there. */
bool step_load(struct step *step, struct error *err)
{
    for (int i = 0; i < step->options.shape.params->n; i++) {
        const struct buffer *buffer = step->parameters[i];
        if (buffer == NULL ||
            view_of(step, i, backend_buffer_type(buffer)->dtype) != NULL) {
            continue;
        }
        if (!interrupt_check(err) || !load_param(step, i, err)) {
            return false;
        }
    }
    return true;
}

/* From the engine's memory in place where it can be read there. */
bool step_read_param(void *context, int param, int64_t first_row, int64_t n_rows,
                     float *target, struct error *err)
{
    struct step *step = context;
    const struct param_info *info = &step->options.shape.params->info[param];
    struct buffer *buffer = step->parameters[param];
    if (buffer == NULL) {
        return step->source.read(step->source.context, param, first_row, n_rows, target,
                                 err);
    }
    const enum dtype dtype = backend_buffer_type(buffer)->dtype;
    const size_t n = (size_t)n_rows * (size_t)info->dim[1];
    const size_t start = (size_t)first_row * (size_t)info->dim[1] * dtype_bytes(dtype);
    const unsigned char *host = backend_buffer_host(buffer, 0);
    if (host != NULL) {
        dtype_to_f32(dtype, host + start, target, n);
        return true;
    }
    unsigned char *whole =
        mem_try_alloc((size_t)info->n_elements * dtype_bytes(dtype), info->name, err);
    const bool done = whole != NULL && backend_fetch(buffer, 0, whole, err);
    if (done) {
        dtype_to_f32(dtype, whole + start, target, n);
    }
    mem_free(whole);
    return done;
}

/* Of the sum, not of the mean. */
const float *step_gradient(struct step *step, int param)
{
    char name[400];
    snprintf(name, sizeof(name), "acc.grad.%s",
             step->options.shape.params->info[param].name);
    struct buffer *buffer = find_buffer(step, name);
    return buffer == NULL ? NULL : backend_buffer_host(buffer, 0);
}

/* ---- running ---- */

/* Rows of the frozen per-layer table for the ids of a batch. */
static bool look_up_ple(struct step *step, const struct batch *batch, struct error *err)
{
    const struct params *params = step->options.shape.params;
    const int param = params_index(params, PARAM_PLE_TABLE, -1);
    const int64_t row = params->info[param].dim[1];
    const int64_t n_rows = params->info[param].dim[0];
    for (int64_t i = 0; i < (int64_t)batch->rows * batch->row_tokens; i++) {
        float *target = step->ple_staging + i * row;
        /* The table may have fewer rows than the vocabulary: such tokens have none. */
        if (batch->ids[i] >= n_rows) {
            memset(target, 0, (size_t)row * sizeof(float));
        } else if (!step->source.read(step->source.context, param, batch->ids[i], 1,
                                      target, err)) {
            return false;
        }
    }
    return true;
}

/* NULL: the graph has no such input. */
static bool upload_if(struct buffer *buffer, const void *host, struct error *err)
{
    return buffer == NULL || backend_upload(buffer, 0, host, err);
}

/* Shapes are fixed when the program is compiled: a batch of another shape is a
 * mistake. */
static bool upload_batch(struct step *step, const struct pass *pass,
                         const struct batch *batch, struct error *err)
{
    ASSERT(batch->rows == step->options.shape.B &&
           batch->row_tokens == step->options.shape.T &&
           batch->target_capacity == pass->C);
    if (pass->ple_rows != NULL &&
        (!look_up_ple(step, batch, err) ||
         !backend_upload(pass->ple_rows, 0, step->ple_staging, err))) {
        return false;
    }
    return upload_if(pass->ids, batch->ids, err) &&
           upload_if(pass->position, batch->position, err) &&
           upload_if(pass->first_key, batch->first_key, err) &&
           upload_if(pass->loss_rows, batch->loss_rows, err) &&
           upload_if(pass->targets, batch->targets, err) &&
           upload_if(pass->weight, batch->weight, err);
}

/* What dropout is drawn from: the batch's place in the run counts passes, and goes on
 * where it was when a run is resumed. */
static bool upload_dropout(const struct step *step, const struct pass *pass,
                           const struct batch *batch, struct error *err)
{
    const uint64_t seed = step->options.seed;
    const uint32_t key = (uint32_t)(seed ^ seed >> 32);
    const uint32_t number =
        (uint32_t)(batch->position_from + (int64_t)batch->micro * batch->rows);
    return upload_if(pass->dropout_seed, &key, err) &&
           upload_if(pass->dropout_step, &number, err);
}

/* One run of the program over its own arguments and outputs. */
static bool execute(const struct bound *bound, struct error *err)
{
    return backend_execute(bound->program, bound->arguments, bound->outputs, err);
}

/* keep is false for the first micro-batch of a step: its gradients are set, not added,
 * so the sums never have to be cleared. */
bool step_accumulate(struct step *step, const struct batch *batch, double *loss_sum,
                     struct error *err)
{
    ASSERT(step->options.trains);
    /* The engine's bool is one byte, 0 or 1. */
    const unsigned char keep = step->has_gradients;
    if (!upload_batch(step, &step->grad, batch, err) ||
        !upload_dropout(step, &step->grad, batch, err) ||
        !upload_if(step->keep, &keep, err) || !execute(&step->grad.bound, err) ||
        !backend_fetch(step->grad.loss_sum, 0, loss_sum, err)) {
        return false;
    }
    step->has_gradients = true;
    return true;
}

/*
 * c1 = 1 - beta1^count, c2 = 1 - beta2^count
 * in f64 and rounded once. A skipped step does not count: the next one has the same
 * corrections.
 */
bool step_update(struct step *step, const struct step_hyper *hyper,
                 struct step_result *result, struct error *err)
{
    ASSERT(step->has_gradients && hyper->weight_sum > 0.0);
    const double count = (double)(step->n_updates + 1);
    float values[ADAMW_N_HYPER];
    values[ADAMW_LR] = (float)hyper->lr;
    values[ADAMW_BETA1] = (float)hyper->beta1;
    values[ADAMW_BETA2] = (float)hyper->beta2;
    values[ADAMW_EPS] = (float)hyper->eps;
    values[ADAMW_DECAY] = (float)hyper->weight_decay;
    /* From the betas as the kernel has them, so that the first step divides by exactly
     * what it multiplied with. */
    values[ADAMW_BIAS_CORRECTION1] =
        (float)(1.0 - pow((double)values[ADAMW_BETA1], count));
    values[ADAMW_BIAS_CORRECTION2] =
        (float)(1.0 - pow((double)values[ADAMW_BETA2], count));
    /* One division for the whole step: gradients are sums until here. */
    const double inverse = 1.0 / hyper->weight_sum;
    /* Chance is drawn from words of 32 bits: both halves of the seed count. */
    const uint32_t seed = (uint32_t)(step->options.seed ^ step->options.seed >> 32);
    const uint32_t number = (uint32_t)(step->n_updates + 1);
    unsigned char applied = 0;
    if (!backend_upload(step->hyper, 0, values, err) ||
        !backend_upload(step->inverse, 0, &inverse, err) ||
        !backend_upload(step->clip, 0, &hyper->clip_norm, err) ||
        !backend_upload(step->update_loss_sum, 0, &hyper->loss_sum, err) ||
        !upload_if(step->rounding_seed, &seed, err) ||
        !upload_if(step->rounding_step, &number, err) || !execute(&step->update, err) ||
        !backend_fetch(step->grad_norm, 0, &result->grad_norm, err) ||
        !backend_fetch(step->applied, 0, &applied, err)) {
        return false;
    }
    result->is_applied = applied != 0;
    step->n_updates += applied != 0;
    step->has_gradients = false;
    return true;
}

int64_t step_n_updates(const struct step *step)
{
    return step->n_updates;
}

bool step_evaluate(struct step *step, const struct batch *batch, double *loss_sum,
                   float *token_loss, struct error *err)
{
    ASSERT(step->options.evaluates);
    return upload_batch(step, &step->evaluate, batch, err) &&
           execute(&step->evaluate.bound, err) &&
           backend_fetch(step->evaluate.loss_sum, 0, loss_sum, err) &&
           (token_loss == NULL ||
            backend_fetch(step->evaluate.token_loss, 0, token_loss, err));
}

/* Everything that lives between programs, batches and results too. */
size_t step_state_bytes(const struct step *step)
{
    size_t bytes = 0;
    for (size_t i = 0; i < step->n_state; i++) {
        if (!step->state[i].is_borrowed) {
            bytes += type_bytes(backend_buffer_type(step->state[i].buffer));
        }
    }
    return bytes;
}

/* Programs run one after the other and may share: the largest counts. */
size_t step_working_bytes(const struct step *step)
{
    const struct program *programs[] = {
        step->grad.bound.program, step->evaluate.bound.program, step->update.program};
    size_t bytes = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(programs); i++) {
        if (programs[i] != NULL && backend_program_bytes(programs[i]) > bytes) {
            bytes = backend_program_bytes(programs[i]);
        }
    }
    return bytes;
}
