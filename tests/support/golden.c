/*
 * golden - see the header.
 */
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/records.h"
#include "formats/safetensors.h"

struct golden {
    struct model_source source;
    struct lora *adapter; /* NULL: none */
    json_t *input, *expected_json;
    struct safetensors *expected;
    struct records records[GOLDEN_BATCHES];
    struct batch *batches[GOLDEN_BATCHES];
    bool *is_trainable;
    int32_t B, T;
};

static json_t *read_json(const char *name, const char *file)
{
    struct error err;
    char path[300];
    snprintf(path, sizeof(path), "tests/golden/%s/%s", name, file);
    json_t *root = json_read_file(path, 64 << 20, &err);
    if (root == NULL) {
        fail_msg("%s", err.message);
    }
    return root;
}

/* Row b of a batch as one line of token rows. */
static void add_row(struct str *lines, json_t *batch, size_t b)
{
    const char *const keys[] = {"input_ids", "labels", "attention_mask",
                                "position_ids"};
    json_t *row = json_object();
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
        json_t *all = json_object_get(batch, keys[i]);
        if (all != NULL) {
            json_object_set(row, keys[i], json_array_get(all, b));
        }
    }
    char *text = json_dumps(row, JSON_COMPACT);
    str_add(lines, text);
    str_add_char(lines, '\n');
    free(text);
    json_decref(row);
}

static void read_batch(struct golden *golden, int k)
{
    json_t *batch =
        json_array_get(json_object_get(golden->input, "batches"), (size_t)k);
    json_t *ids = json_object_get(batch, "input_ids");
    const size_t B = json_array_size(ids);
    golden->B = (int32_t)B;
    golden->T = (int32_t)json_array_size(json_array_get(ids, 0));
    struct str lines = {0};
    for (size_t b = 0; b < B; b++) {
        add_row(&lines, batch, b);
    }
    const struct records_options options = {
        .format = RECORDS_TOKENS, .n_vocabulary = (int32_t)golden->source.config.V};
    struct error err;
    if (!records_read_text(&golden->records[k], lines.text, lines.length, "golden",
                           &options, NULL, &err)) {
        fail_msg("%s", err.message);
    }
    str_deinit(&lines);
    assert_int_equal(golden->records[k].n, B);
    golden->batches[k] = batch_create(golden->B, golden->T, golden->B * golden->T);
    batch_clear(golden->batches[k], 0);
    for (size_t b = 0; b < B; b++) {
        const struct example example = records_example(&golden->records[k], b);
        batch_add(golden->batches[k], (int32_t)b, &example);
    }
}

/* Before the names of an adapter's tensors. */
static const char peft_prefix[] = "base_model.model.";

static void read_trainable(struct golden *golden)
{
    const struct params *params = golden->source.params;
    golden->is_trainable = mem_alloc_array((size_t)params->n, sizeof(bool));
    const json_t *names = json_object_get(golden->expected_json, "trainable");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        name += str_starts_with(name, peft_prefix) ? strlen(peft_prefix) : 0;
        const int index = params_find(params, name);
        assert_true(index >= 0);
        golden->is_trainable[index] = true;
    }
}

struct golden *golden_open(const char *name)
{
    log_set_level(LOG_ERROR);
    struct golden *golden = mem_alloc(sizeof(*golden));
    struct error err;
    golden->input = read_json(name, "input.json");
    golden->expected_json = read_json(name, "expected.json");
    const char *from =
        json_string_value(json_object_get(golden->input, "weights_from"));
    char path[300];
    snprintf(path, sizeof(path), "tests/golden/%s",
             from != NULL && str_starts_with(from, "../") ? from + strlen("../")
                                                          : name);
    if (!model_source_open(&golden->source, path, true, false, &err)) {
        fail_msg("%s", err.message);
    }
    golden->source.path = NULL; /* on this stack */
    snprintf(path, sizeof(path), "tests/golden/%s", name);
    if (lora_is_folder(path)) {
        golden->adapter = lora_open(path, golden->source.params, &err);
        if (golden->adapter == NULL) {
            fail_msg("%s", err.message);
        }
    }
    snprintf(path, sizeof(path), "tests/golden/%s/expected.safetensors", name);
    golden->expected = safetensors_open(path, &err);
    if (golden->expected == NULL) {
        fail_msg("%s", err.message);
    }
    read_trainable(golden);
    for (int k = 0; k < GOLDEN_BATCHES; k++) {
        read_batch(golden, k);
    }
    return golden;
}

void golden_close(struct golden *golden)
{
    for (int k = 0; k < GOLDEN_BATCHES; k++) {
        batch_destroy(golden->batches[k]);
        records_deinit(&golden->records[k]);
    }
    mem_free(golden->is_trainable);
    safetensors_close(golden->expected);
    lora_close(golden->adapter);
    model_source_close(&golden->source);
    json_decref(golden->input);
    json_decref(golden->expected_json);
    mem_free(golden);
}

const struct model_source *golden_source(const struct golden *golden)
{
    return &golden->source;
}

/* A weights_read_fn; context is the golden. */
static bool read_param(void *context, int param, int64_t first_row, int64_t n_rows,
                       float *target, struct error *err)
{
    struct golden *golden = context;
    return param < golden->source.params->n_model
               ? model_source_read(&golden->source, param, first_row, n_rows, target,
                                   err)
               : lora_read(golden->adapter, param, first_row, n_rows, target, err);
}

struct step_source golden_step_source(struct golden *golden)
{
    return (struct step_source){.read = read_param, .context = golden};
}

int32_t golden_B(const struct golden *golden)
{
    return golden->B;
}

int32_t golden_T(const struct golden *golden)
{
    return golden->T;
}

const struct batch *golden_batch(const struct golden *golden, int k)
{
    return golden->batches[k];
}

void golden_batch_rows(const struct golden *golden, int k, int32_t first,
                       struct batch *part)
{
    batch_clear(part, 0);
    for (int32_t b = 0; b < part->rows; b++) {
        const struct example example =
            records_example(&golden->records[k], (size_t)(first + b));
        batch_add(part, b, &example);
    }
}

int32_t golden_n_documents(const struct golden *golden)
{
    int32_t n = 0;
    for (size_t i = 0; i < golden->records[0].n; i++) {
        n += records_example(&golden->records[0], i).n_documents;
    }
    return n;
}

void golden_batch_documents(const struct golden *golden, struct batch *alone)
{
    const int32_t start = 0;
    int32_t row = 0;
    batch_clear(alone, 0);
    for (size_t i = 0; i < golden->records[0].n; i++) {
        const struct example whole = records_example(&golden->records[0], i);
        for (int32_t d = 0; d < whole.n_documents; d++) {
            const int32_t from = whole.document_from[d];
            const int32_t to =
                d + 1 < whole.n_documents ? whole.document_from[d + 1] : whole.n;
            const struct example part = {.ids = whole.ids + from,
                                         .loss_weight = whole.loss_weight + from,
                                         .document_from = &start,
                                         .n = to - from,
                                         .n_documents = 1};
            batch_add(alone, row++, &part);
        }
    }
}

int32_t golden_row_length(const struct golden *golden, int b)
{
    return records_example(&golden->records[0], (size_t)b).n;
}

int32_t golden_first_column(const struct golden *golden, int b)
{
    json_t *batch = json_array_get(json_object_get(golden->input, "batches"), 0);
    json_t *mask = json_array_get(json_object_get(batch, "attention_mask"), (size_t)b);
    int32_t column = 0;
    while ((size_t)column < json_array_size(mask) &&
           json_integer_value(json_array_get(mask, (size_t)column)) == 0) {
        column++;
    }
    return column;
}

const float *golden_tensor(const struct golden *golden, const char *name,
                           int64_t *n_elements)
{
    const struct tensor_view *view = safetensors_find(golden->expected, name);
    if (view == NULL) {
        return NULL;
    }
    assert_int_equal(view->dtype, DTYPE_F32);
    *n_elements = (int64_t)(view->n_bytes / sizeof(float));
    return (const float *)(const void *)view->bytes;
}

double golden_number(const struct golden *golden, const char *section, const char *key,
                     int index)
{
    const json_t *at = golden->expected_json;
    if (section != NULL) {
        at = json_object_get(at, section);
    }
    at = json_object_get(at, key);
    if (index >= 0) {
        at = json_array_get(at, (size_t)index);
    }
    if (!json_is_number(at)) {
        fail_msg("expected.json has no number %s.%s[%d]",
                 section == NULL ? "" : section, key, index);
    }
    return json_number_value(at);
}

const char *golden_name(const struct golden *golden, int param, char buffer[300])
{
    const struct params *params = golden->source.params;
    snprintf(buffer, 300, "%s%s", param < params->n_model ? "" : peft_prefix,
             params->info[param].name);
    return buffer;
}

const bool *golden_trainable(const struct golden *golden)
{
    return golden->is_trainable;
}

const json_t *golden_json(const struct golden *golden)
{
    return golden->expected_json;
}

struct engine *golden_engine(int n_threads)
{
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {.n_threads = n_threads,
                                            .isa = BACKEND_ISA_BEST};
    struct error err;
    struct engine *engine = backend_create_cpu(&mesh, 0, 1, &options, &err);
    if (engine == NULL) {
        fail_msg("%s", err.message);
    }
    return engine;
}

struct step_options golden_step_options(const struct golden *golden, int32_t B,
                                        int32_t C)
{
    const struct params *params = golden->source.params;
    const int table = params_index(params, PARAM_PLE_TABLE, -1);
    return (struct step_options){
        .shape = {.config = &golden->source.config,
                  .params = params,
                  .is_trainable = golden->is_trainable,
                  .has_ple_rows = table >= 0 && !golden->is_trainable[table],
                  .B = B,
                  .T = golden->T,
                  .C = C,
                  .compute = DTYPE_F32},
        .trains = true,
        .evaluates = true};
}

struct step *golden_step_create(struct golden *golden, struct engine *engine,
                                const struct step_options *options)
{
    const struct step_source source = golden_step_source(golden);
    struct error err;
    struct step *step = step_create(engine, options, &source, &err);
    if (step == NULL || !step_load(step, &err)) {
        fail_msg("%s", err.message);
    }
    return step;
}

struct step *golden_step(struct golden *golden, struct engine *engine, int32_t B,
                         int32_t C, bool recomputes)
{
    struct step_options options = golden_step_options(golden, B, C);
    options.shape.recomputes = recomputes;
    return golden_step_create(golden, engine, &options);
}

double golden_l2(const float *a, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)a[i];
    }
    return sqrt(sum);
}

double golden_relative_l2(const float *a, const float *b, int64_t n)
{
    double difference = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        difference += d * d;
    }
    const double norm = golden_l2(b, n);
    return norm > 0.0 ? sqrt(difference) / norm : sqrt(difference);
}
