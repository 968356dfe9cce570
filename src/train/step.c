/*
 * step - state and programs. Buffers are kept in one list by argument name; each
 * program looks its arguments and outputs up once, at creation.
 */
#include "train/step_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "data/batch.h"
#include "train/param_rows.h"

/* ---- buffers by name ---- */

/* Linear, at creation only: running uses the bound lists. */
struct buffer *step_find_buffer(const struct step *step, const char *name)
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
    struct buffer *buffer = step_find_buffer(step, name);
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
bool step_bind(struct step *step, struct graph *owned_graph, const char *prefix,
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
void step_unbind(struct bound *bound)
{
    backend_program_destroy(bound->program);
    mem_free(bound->arguments);
    mem_free(bound->outputs);
    *bound = (struct bound){0};
}

/* NULL: this program has no such argument. */
struct buffer *step_find_prefixed(const struct step *step, const char *prefix,
                                  const char *name)
{
    char full[400];
    snprintf(full, sizeof(full), "%s%s", prefix, name);
    return step_find_buffer(step, full);
}

/* C comes along: the batches of a pass have as many entries of loss_rows. */
static bool create_pass(struct step *step, struct graph *owned_graph,
                        const char *prefix, int64_t C, struct pass *pass,
                        struct error *err)
{
    if (!step_bind(step, owned_graph, prefix, &pass->bound, err)) {
        return false;
    }
    /* Gradients and losses of a batch can be lost; an update is never cut. */
    backend_program_allow_abandon(pass->bound.program);
    pass->ids = step_find_prefixed(step, prefix, "ids");
    pass->position = step_find_prefixed(step, prefix, "position");
    pass->first_key = step_find_prefixed(step, prefix, "first_key");
    pass->loss_rows = step_find_prefixed(step, prefix, "loss_rows");
    pass->targets = step_find_prefixed(step, prefix, "targets");
    pass->weight = step_find_prefixed(step, prefix, "weight");
    pass->ple_rows = step_find_prefixed(step, prefix, "ple_rows");
    pass->dropout_seed = step_find_prefixed(step, prefix, "dropout_seed");
    pass->dropout_step = step_find_prefixed(step, prefix, "dropout_step");
    pass->loss_sum = step_find_prefixed(step, prefix, "out:loss_sum");
    pass->token_loss = step_find_prefixed(step, prefix, "out:token_loss");
    pass->C = C;
    return true;
}

/* ---- creation ---- */

/* The updates are built from the gradient graph before that one is handed over: compiling
 * takes it. */
static bool create_training(struct step *step, struct error *err)
{
    const struct mesh mesh = mesh_single();
    const struct step_shape *shape = &step->options.shape;
    struct graph *grad = step_graphs_grad(&mesh, shape);
    if (!step_update_create(step, grad, err)) {
        graph_destroy(grad);
        return false;
    }
    if (!create_pass(step, grad, "grad:", shape->C, &step->grad, err)) {
        return false;
    }
    step->keep = step_find_buffer(step, "grad:keep");
    if (step_graphs_has_objective(shape)) {
        step->token_loss = mem_alloc_array((size_t)shape->C, sizeof(float));
    }
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
        step->parameters[i] = step_find_buffer(step, shape->params->info[i].name);
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
    step_unbind(&step->grad.bound);
    step_unbind(&step->evaluate.bound);
    step_update_destroy(step);
    for (size_t i = 0; i < step->n_state; i++) {
        backend_buffer_destroy(step->state[i].buffer);
        mem_free((void *)(uintptr_t)step->state[i].name);
    }
    mem_free(step->state);
    mem_free(step->parameters);
    mem_free(step->ple_staging);
    mem_free(step->token_loss);
    mem_free(step);
}

/* ---- parameters in and out ---- */

/* A parameter without a buffer stays in its file, and so does one that is read there. */
bool step_load(struct step *step, struct error *err)
{
    for (int i = 0; i < step->options.shape.params->n; i++) {
        const struct buffer *buffer = step->parameters[i];
        if (buffer == NULL ||
            view_of(step, i, backend_buffer_type(buffer)->dtype) != NULL) {
            continue;
        }
        if (!interrupt_check(err) ||
            !param_rows_load(step->parameters[i], step->options.shape.params, i,
                             step->source.read, step->source.context, err)) {
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

struct buffer *step_param_buffer(void *context, int param)
{
    const struct step *step = context;
    return step->parameters[param];
}

/* Of the sum, not of the mean. */
const float *step_gradient(struct step *step, int param)
{
    char name[400];
    snprintf(name, sizeof(name), "acc.grad.%s",
             step->options.shape.params->info[param].name);
    struct buffer *buffer = step_find_buffer(step, name);
    return buffer == NULL ? NULL : backend_buffer_host(buffer, 0);
}

/* ---- running ---- */

/* Rows of the frozen per-layer table for the ids of a batch. */
static bool look_up_ple(struct step *step, const struct batch *batch, struct error *err)
{
    const struct params *params = step->options.shape.params;
    return param_rows_look_up(params, params_index(params, PARAM_PLE_TABLE, -1),
                              batch->ids, (int64_t)batch->rows * batch->row_tokens,
                              step->source.read, step->source.context,
                              step->ple_staging, err);
}

/* NULL: the graph has no such input. */
bool step_upload_if(struct buffer *buffer, const void *host, struct error *err)
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
    return step_upload_if(pass->ids, batch->ids, err) &&
           step_upload_if(pass->position, batch->position, err) &&
           step_upload_if(pass->first_key, batch->first_key, err) &&
           step_upload_if(pass->loss_rows, batch->loss_rows, err) &&
           step_upload_if(pass->targets, batch->targets, err) &&
           step_upload_if(pass->weight, batch->weight, err);
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
    return step_upload_if(pass->dropout_seed, &key, err) &&
           step_upload_if(pass->dropout_step, &number, err);
}

/* One run of the program over its own arguments and outputs. */
bool step_execute(const struct bound *bound, struct error *err)
{
    return backend_execute(bound->program, bound->arguments, bound->outputs, err);
}

/* The cross entropy of the batch: the program's own sum, unless more is learned than
 * that. */
static bool fetch_loss(struct step *step, const struct batch *batch, double *loss_sum,
                       struct error *err)
{
    if (step->token_loss == NULL) {
        return backend_fetch(step->grad.loss_sum, 0, loss_sum, err);
    }
    if (!backend_fetch(step->grad.token_loss, 0, step->token_loss, err)) {
        return false;
    }
    *loss_sum = 0.0;
    for (int32_t c = 0; c < batch->n_targets; c++) {
        *loss_sum += (double)batch->weight[c] * (double)step->token_loss[c];
    }
    return true;
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
        !step_upload_if(step->keep, &keep, err) ||
        !step_execute(&step->grad.bound, err) ||
        !fetch_loss(step, batch, loss_sum, err)) {
        return false;
    }
    step->has_gradients = true;
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
           step_execute(&step->evaluate.bound, err) &&
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
