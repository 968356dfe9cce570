/*
 * The public interface, as a program uses it: versions, errors, handlers, settings, runs
 * with callbacks, tokens, facts, tensors, scores (against the reference), answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "lathe/lathe.h"
#include "support/golden.h"

static const char *const tiny = "tests/golden/gemma3-tiny";
static const char *const demo = "examples/demo/model";

/* A folder of this process for what a test writes. */
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lathe-test-api-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    struct error err;
    return !file_remove_tree(folder, &err);
}

static void versions_agree(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", LATHE_VERSION_MAJOR, LATHE_VERSION_MINOR,
             LATHE_VERSION_PATCH);
    assert_string_equal(LATHE_VERSION_STRING, text);
    assert_string_equal(lathe_version_string(), text);
    assert_int_equal(lathe_version(), LATHE_VERSION);
}

/* ---- handlers ---- */

/* Counts lines by level, and keeps the last one. */
struct heard {
    int n[LATHE_DEBUG + 1];
    char last[300];
};

static void hear(void *context, int level, const char *line)
{
    struct heard *heard = context;
    heard->n[level]++;
    snprintf(heard->last, sizeof(heard->last), "%s", line);
}

static int fatal_pipe[2];

static void tell_parent(const char *message)
{
    const ssize_t n = write(fatal_pipe[1], message, strlen(message));
    (void)n;
}

static void a_fatal_error_reaches_the_handler(void **state)
{
    (void)state;
    assert_int_equal(pipe(fatal_pipe), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct lathe_model *model = lathe_model_open(tiny, NULL, NULL);
        signal(SIGABRT, SIG_DFL);
        lathe_set_fatal_handler(tell_parent);
        lathe_model_fact(model, 99);
        _exit(0);
    }
    close(fatal_pipe[1]);
    char message[200] = "";
    assert_true(read(fatal_pipe[0], message, sizeof(message) - 1) > 0);
    assert_non_null(strstr(message, "assertion failed"));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
    close(fatal_pipe[0]);
}

/* ---- settings ---- */

static void settings_are_those_of_a_run_file(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    struct lathe_settings *settings = lathe_settings_create();
    assert_false(lathe_settings_check(settings, &error));
    assert_int_equal(error.code, LATHE_USAGE);
    assert_non_null(strstr(error.message, "model is missing"));
    const char yaml[] = "model: m\nrun: r\ntrain: {epochs: 2}\n";
    assert_true(lathe_settings_read_text(settings, yaml, strlen(yaml), "here", &error));
    assert_true(lathe_settings_set(settings, "data.train", "[a, \"b c\"]", &error));
    assert_true(lathe_settings_set(settings, "data.format", "text", &error));
    assert_true(lathe_settings_check(settings, &error));
    char *text = lathe_settings_print(settings);
    assert_non_null(strstr(text, "train: [\"a\", \"b c\"]\n"));
    assert_non_null(strstr(text, "epochs: 2\n"));
    lathe_free(text);

    assert_false(lathe_settings_set(settings, "train.epoch", "3", &error));
    assert_int_equal(error.code, LATHE_USAGE);
    assert_non_null(strstr(error.message, "did you mean train.epochs?"));
    assert_false(lathe_settings_set(settings, "train.epochs=1", "3", NULL));
    assert_false(lathe_settings_read_text(settings, "a: 1", 4, "here", &error));
    assert_non_null(strstr(error.message, "here:1:1"));
    assert_false(lathe_settings_read_file(settings, "nothing.yaml", &error));
    assert_int_equal(error.code, LATHE_USAGE);
    setenv("LATHE_TRAIN_EPOCHS", "7", 1);
    assert_true(lathe_settings_read_environment(settings, &error));
    unsetenv("LATHE_TRAIN_EPOCHS");
    text = lathe_settings_print(settings);
    assert_non_null(strstr(text, "epochs: 7\n"));
    lathe_free(text);
    lathe_settings_destroy(settings);
    lathe_settings_destroy(NULL);
}

static void the_table_of_settings_is_there(void **state)
{
    (void)state;
    size_t n = 0;
    for (; lathe_settings_key(n) != NULL; n++) {
        assert_true(strlen(lathe_settings_help(lathe_settings_key(n))) > 5);
    }
    assert_true(n > 40);
    assert_string_equal(lathe_settings_choices("data.overlong"),
                        "truncate | drop | split");
    assert_string_equal(lathe_settings_choices("data.pack"), "true | false");
    assert_null(lathe_settings_choices("model"));
    assert_null(lathe_settings_choices("nothing"));
    assert_null(lathe_settings_help("nothing"));
}

/* ---- runs ---- */

/* Three token rows, and a run of 5 steps over them in the folder. */
static struct lathe_settings *tiny_run(const char *name)
{
    char path[128];
    char run[128];
    snprintf(path, sizeof(path), "%s/rows.jsonl", folder);
    snprintf(run, sizeof(run), "%s/%s", folder, name);
    const char rows[] = "{\"input_ids\": [2, 5, 6, 7]}\n{\"input_ids\": [2, 9, 8]}\n"
                        "{\"input_ids\": [2, 11, 12, 13, 14]}\n";
    struct error err;
    assert_true(file_write_atomic(path, rows, strlen(rows), &err));
    struct lathe_settings *settings = lathe_settings_create();
    const char yaml[] = "data: {format: tokens, row_tokens: 16}\nthreads: 1\n"
                        "train: {steps: 5, epochs: 0, batch_rows: 1}\n";
    assert_true(lathe_settings_read_text(settings, yaml, strlen(yaml), "here", NULL));
    assert_true(lathe_settings_set(settings, "model", tiny, NULL));
    assert_true(lathe_settings_set(settings, "run", run, NULL));
    assert_true(lathe_settings_set(settings, "data.train", path, NULL));
    assert_true(lathe_settings_set(settings, "data.cache", folder, NULL));
    return settings;
}

/* What a callback has seen, and what it is to do. */
struct watch {
    int n_steps;
    int stop_by_return_at, stop_by_call_at; /* step, or 0 */
    const struct lathe_settings *nested;    /* a run to start from inside, or NULL */
    struct lathe_error nested_error;
};

static bool watch_step(void *context, const struct lathe_step *step)
{
    struct watch *watch = context;
    watch->n_steps++;
    assert_int_equal(step->step, watch->n_steps);
    assert_int_equal(step->n_steps, 5);
    assert_true(isfinite(step->loss) && step->loss > 0 && step->n_targets > 0);
    assert_true(step->grad_norm > 0 && step->lr > 0 && !step->is_skipped);
    if (watch->nested != NULL) {
        assert_false(lathe_train(watch->nested, LATHE_TRAIN_DRY_RUN, NULL, NULL,
                                 &watch->nested_error));
    }
    if (watch->n_steps == watch->stop_by_call_at) {
        lathe_train_stop();
    }
    return watch->n_steps != watch->stop_by_return_at;
}

static void assert_model_in(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s/model", folder, name);
    struct lathe_error error;
    struct lathe_model *model = lathe_model_open(path, NULL, &error);
    assert_non_null(model);
    lathe_model_close(model);
}

static void a_run_tells_its_steps(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct lathe_error error = {0};
    lathe_set_log_handler(hear, &heard, LATHE_NOTE);
    struct lathe_settings *settings = tiny_run("whole");
    struct watch watch = {.nested = settings};
    assert_true(lathe_train(settings, 0, watch_step, &watch, &error));
    assert_int_equal(watch.n_steps, 5);
    assert_int_equal(watch.nested_error.code, LATHE_FAILED);
    assert_non_null(strstr(watch.nested_error.message, "a run is going on"));
    assert_true(heard.n[LATHE_NOTE] > 3);
    assert_int_equal(heard.n[LATHE_ERROR], 0);
    assert_model_in("whole");
    /* The folder is there now. */
    assert_false(lathe_train(settings, 0, NULL, NULL, &error));
    assert_int_equal(error.code, LATHE_USAGE);
    assert_true(lathe_train(settings, LATHE_TRAIN_OVERWRITE, NULL, NULL, &error));
    assert_true(lathe_train(settings, LATHE_TRAIN_DRY_RUN, NULL, NULL, &error));
    assert_false(lathe_train(settings, 64, NULL, NULL, &error));
    lathe_settings_destroy(settings);
    lathe_set_log_handler(NULL, NULL, LATHE_WARNING);
}

/* Keeps a line of each kind that a plan has. */
struct heard_plan {
    int n_parameters, n_planned, n_rows, n_cache;
};

static void hear_plan(void *context, int level, const char *line)
{
    struct heard_plan *heard = context;
    assert_true(level == LATHE_NOTE || level == LATHE_WARNING);
    assert_null(strchr(line, '\n'));
    heard->n_parameters += strcmp(line, "Parameters") == 0;
    heard->n_planned += strncmp(line, "  planned  ", 11) == 0;
    heard->n_rows += strstr(line, "row 1 ") != NULL;
    heard->n_cache += strstr(line, "the token cache was written to") != NULL;
}

/* Rows of more than 8 MiB: with the program that is worth a progress line. */
static void write_many_rows(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int row = 0; row < 90; row++) {
        fprintf(file, "{\"input_ids\": [2, 5, 6], \"note\": \"%0100000d\"}\n", row);
    }
    assert_int_equal(fclose(file), 0);
}

/* What a run says goes to the log handler, and nothing to the program's own output: no
 * plan, no progress. */
static void a_dry_run_tells_the_log_alone(void **state)
{
    (void)state;
    struct lathe_error error = {.message = ""};
    struct heard_plan heard = {0};
    char path[128];
    char output[128];
    snprintf(path, sizeof(path), "%s/many.jsonl", folder);
    snprintf(output, sizeof(output), "%s/output", folder);
    write_many_rows(path);
    struct lathe_settings *settings = tiny_run("dry");
    assert_true(lathe_settings_set(settings, "data.train", path, &error));
    assert_true(lathe_settings_set(settings, "data.ignore", "[note]", &error));
    lathe_set_log_handler(hear_plan, &heard, LATHE_NOTE);
    fflush(NULL);
    const int kept[2] = {dup(1), dup(2)};
    FILE *file = fopen(output, "w+");
    assert_non_null(file);
    dup2(fileno(file), 1);
    dup2(fileno(file), 2);
    const bool done = lathe_train(settings, LATHE_TRAIN_DRY_RUN, NULL, NULL, &error);
    const bool again =
        done && lathe_train(settings, LATHE_TRAIN_DRY_RUN, NULL, NULL, &error);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(kept[i], i + 1);
        close(kept[i]);
    }
    lathe_set_log_handler(NULL, NULL, LATHE_WARNING);
    assert_string_equal(error.message, "");
    assert_true(again);
    fseek(file, 0, SEEK_END);
    assert_int_equal(ftell(file), 0);
    fclose(file);
    assert_int_equal(heard.n_parameters, 2);
    assert_int_equal(heard.n_planned, 2);
    assert_int_equal(heard.n_rows, 2);
    assert_int_equal(heard.n_cache, 1); /* it is there the second time */
    snprintf(path, sizeof(path), "%s/dry", folder);
    assert_false(file_exists(path));
    lathe_settings_destroy(settings);
}

/* Stopped in either way, the model of the last update is there. */
static void a_run_can_be_stopped(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    for (int way = 0; way < 2; way++) {
        const char *name = way == 0 ? "returned" : "called";
        struct lathe_settings *settings = tiny_run(name);
        struct watch watch = {.stop_by_return_at = way == 0 ? 2 : 0,
                              .stop_by_call_at = way == 1 ? 3 : 0};
        assert_false(lathe_train(settings, 0, watch_step, &watch, &error));
        assert_int_equal(error.code, LATHE_INTERRUPTED);
        assert_int_equal(watch.n_steps, way == 0 ? 2 : 3);
        assert_model_in(name);
        lathe_settings_destroy(settings);
    }
    /* Nothing is left of it, and without a run there is nothing to stop. */
    lathe_train_stop();
    struct lathe_settings *settings = tiny_run("again");
    struct watch watch = {0};
    assert_true(lathe_train(settings, 0, watch_step, &watch, &error));
    assert_int_equal(watch.n_steps, 5);
    lathe_settings_destroy(settings);
}

/* ---- tokens ---- */

static void text_becomes_tokens_and_text(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    assert_null(lathe_tokenizer_open("nothing", &error));
    assert_int_equal(error.code, LATHE_DATA);
    struct lathe_tokenizer *tokenizer = lathe_tokenizer_open(demo, &error);
    assert_non_null(tokenizer);
    const char text[] = "Tom has 5 apples.";
    int32_t ids[64];
    const size_t n =
        lathe_tokenizer_encode(tokenizer, text, strlen(text), true, ids, 64);
    assert_true(n > 3 && n < 64);
    assert_int_equal(ids[0], lathe_tokenizer_id(tokenizer, "<bos>"));
    /* Fewer places: the first ones, and still the whole count. */
    int32_t few[2] = {-1, -1};
    assert_int_equal(
        lathe_tokenizer_encode(tokenizer, text, strlen(text), true, few, 1), n);
    assert_true(few[0] == ids[0] && few[1] == -1);
    assert_int_equal(lathe_tokenizer_encode(tokenizer, text, 17, false, NULL, 0),
                     n - 1);

    char back[64];
    assert_int_equal(lathe_tokenizer_decode(tokenizer, ids, n, true, back, 64),
                     strlen(text));
    assert_string_equal(back, text);
    char part[4] = "####";
    assert_int_equal(lathe_tokenizer_decode(tokenizer, ids, n, true, part, 3),
                     strlen(text));
    assert_memory_equal(part, "Tom#", 4);
    assert_true(lathe_tokenizer_n_tokens(tokenizer) > ids[n - 1]);
    assert_int_equal(lathe_tokenizer_id(tokenizer, "no such token"), -1);
    lathe_tokenizer_close(tokenizer);
    lathe_tokenizer_close(NULL);
}

static void a_conversation_has_one_bos(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    struct lathe_tokenizer *tokenizer = lathe_tokenizer_open(demo, &error);
    const struct lathe_message messages[] = {{"user", "Hi"}, {"user", "there"}};
    int32_t ids[64];
    size_t n = 0;
    const bool knows_turns =
        lathe_tokenizer_encode_chat(tokenizer, messages, 1, true, ids, 64, &n, &error);
    /* The demo's vocabulary may do without turn marks; that is told then. */
    assert_true(knows_turns ? n > 4 : error.code == LATHE_DATA);
    int n_bos = 0;
    for (size_t i = 0; i < n; i++) {
        n_bos += ids[i] == lathe_tokenizer_id(tokenizer, "<bos>");
    }
    assert_int_equal(n_bos, knows_turns ? 1 : 0);
    assert_false(
        lathe_tokenizer_encode_chat(tokenizer, messages, 2, true, ids, 64, &n, &error));
    assert_int_equal(error.code, LATHE_DATA);
    lathe_tokenizer_close(tokenizer);
}

/* ---- models ---- */

static void a_model_tells_its_facts(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    assert_null(lathe_model_open("nothing", NULL, &error));
    assert_int_equal(error.code, LATHE_DATA);
    assert_null(lathe_model_open(tiny, "nothing", NULL));
    struct lathe_model *model = lathe_model_open(tiny, NULL, &error);
    assert_non_null(model);
    assert_string_equal(lathe_model_family(model), "Gemma 3");
    assert_int_equal(lathe_model_fact(model, LATHE_FACT_VOCABULARY), 256);
    assert_true(lathe_model_fact(model, LATHE_FACT_LAYERS) > 0);
    assert_true(lathe_model_fact(model, LATHE_FACT_HEADS) > 0);
    assert_true(lathe_model_fact(model, LATHE_FACT_WINDOW) > 0);
    assert_true(lathe_model_fact(model, LATHE_FACT_POSITIONS) > 0);
    int64_t n_elements = 0;
    for (int i = 0; i < lathe_model_n_tensors(model); i++) {
        struct lathe_tensor tensor;
        lathe_model_tensor(model, i, &tensor);
        assert_non_null(tensor.name);
        assert_string_equal(tensor.type, "f32");
        n_elements += tensor.dim[0] * tensor.dim[1];
    }
    assert_int_equal(n_elements, lathe_model_fact(model, LATHE_FACT_PARAMETERS));
    /* No tokenizer is in that folder. */
    assert_null(lathe_model_tokenizer(model));
    assert_null(lathe_generator_create(model, 16, &error));
    assert_non_null(strstr(error.message, "tokenizer.json"));
    lathe_model_close(model);
    lathe_model_close(NULL);
}

/* The first tensor of both, as f32. */
static void assert_first_rows(const struct lathe_model *a, const struct lathe_model *b,
                              double tolerance)
{
    struct lathe_tensor tensor;
    lathe_model_tensor(a, 0, &tensor);
    const int64_t n = 3 * tensor.dim[1];
    float *x = mem_alloc_array((size_t)n, sizeof(float));
    float *y = mem_alloc_array((size_t)n, sizeof(float));
    assert_true(lathe_model_read(a, 0, 5, 3, x, NULL));
    assert_true(lathe_model_read(b, 0, 5, 3, y, NULL));
    assert_true(golden_relative_l2(x, y, n) <= tolerance);
    mem_free(x);
    mem_free(y);
}

static void a_model_is_written(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    struct lathe_model *model = lathe_model_open(tiny, NULL, &error);
    char path[128];
    snprintf(path, sizeof(path), "%s/written", folder);
    assert_false(lathe_model_write(model, path, "int8", &error));
    assert_int_equal(error.code, LATHE_USAGE);
    assert_true(lathe_model_write(model, path, "bf16", &error));
    assert_false(lathe_model_write(model, path, "bf16", &error));
    struct lathe_model *written = lathe_model_open(path, NULL, &error);
    assert_non_null(written);
    struct lathe_tensor tensor;
    lathe_model_tensor(written, 0, &tensor);
    assert_string_equal(tensor.type, "bf16");
    /* bf16 keeps 8 bits: half a unit is 2^-9. */
    assert_first_rows(model, written, 1.0 / 256);
    assert_first_rows(model, model, 0.0);
    lathe_model_close(written);
    lathe_model_close(model);
}

/* All rows of the golden batch, scored alone: the loss is the reference's. */
static void assert_score(const char *name, const char *path, const char *adapter)
{
    struct golden *golden = golden_open(name);
    const struct batch *batch = golden_batch(golden, 0);
    struct lathe_error error = {.message = ""};
    struct lathe_model *model = lathe_model_open(path, adapter, &error);
    assert_string_equal(error.message, "");
    lathe_model_set_threads(model, 1);
    const int32_t B = batch->rows;
    const int32_t T = batch->row_tokens;
    struct lathe_row *rows = mem_alloc_array((size_t)B, sizeof(*rows));
    struct lathe_score *scores = mem_alloc_array((size_t)B, sizeof(*scores));
    float **losses = mem_alloc_array((size_t)B, sizeof(*losses));
    float *weight = mem_alloc_array((size_t)(B * T), sizeof(float));
    for (int32_t c = 0; c < batch->n_targets; c++) {
        weight[batch->loss_rows[c] + 1] = batch->weight[c];
    }
    for (int32_t b = 0; b < B; b++) {
        rows[b] = (struct lathe_row){.ids = batch->ids + b * T,
                                     .weight = weight + b * T,
                                     .n = (size_t)batch->row_used[b]};
        losses[b] =
            b == 0 ? NULL : mem_alloc_array((size_t)batch->row_used[b], sizeof(float));
    }
    assert_true(lathe_model_score(model, rows, (size_t)B, scores, losses, &error));
    double loss_sum = 0.0;
    double weight_sum = 0.0;
    for (int32_t b = 0; b < B; b++) {
        loss_sum += scores[b].loss_sum;
        weight_sum += scores[b].weight_sum;
        double row_sum = 0.0;
        for (size_t t = 0; losses[b] != NULL && t < rows[b].n; t++) {
            assert_true(isnan(losses[b][t]) == (rows[b].weight[t] <= 0.0f || t == 0));
            row_sum += isnan(losses[b][t]) ? 0.0 : (double)losses[b][t];
        }
        assert_true(losses[b] == NULL || fabs(row_sum - scores[b].loss_sum) < 1e-5);
        mem_free(losses[b]);
    }
    const double expected = golden_number(golden, NULL, "loss", -1);
    if (!(fabs(loss_sum / weight_sum - expected) <= 1e-6 * expected)) {
        fail_msg("%s: %.9g, expected %.9g", name, loss_sum / weight_sum, expected);
    }
    mem_free(weight);
    mem_free(losses);
    mem_free(scores);
    mem_free(rows);
    lathe_model_close(model);
    golden_close(golden);
}

static void scores_are_the_references(void **state)
{
    (void)state;
    assert_score("gemma3-tiny", tiny, NULL);
    assert_score("gemma4-e2b-tiny", "tests/golden/gemma4-e2b-tiny", NULL);
    assert_score("gemma4-e2b-tiny-lora", "tests/golden/gemma4-e2b-tiny",
                 "tests/golden/gemma4-e2b-tiny-lora");
}

static void wrong_rows_are_named(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    struct lathe_model *model = lathe_model_open(tiny, NULL, &error);
    struct lathe_score scores[2];
    const int32_t wrong[] = {2, 256};
    const struct lathe_row bad = {.ids = wrong, .n = 2};
    assert_false(lathe_model_score(model, &bad, 1, scores, NULL, &error));
    assert_int_equal(error.code, LATHE_USAGE);
    assert_string_equal(error.message, "row 0: token 1 is 256, expected 0 to 255");
    const float negative[] = {1, -1};
    const int32_t right[] = {2, 5};
    const struct lathe_row minus = {.ids = right, .weight = negative, .n = 2};
    assert_false(lathe_model_score(model, &minus, 1, scores, NULL, &error));
    const struct lathe_row longer = {.ids = wrong, .n = (size_t)1 << 40};
    assert_false(lathe_model_score(model, &longer, 1, scores, NULL, NULL));
    /* No targets, no tokens: no loss. */
    const struct lathe_row empty[] = {{.ids = right, .n = 1}, {.n = 0}};
    assert_true(lathe_model_score(model, empty, 2, scores, NULL, &error));
    assert_true(scores[0].n_targets == 0 && scores[1].n_targets == 0);
    lathe_model_close(model);
}

/* Collects, and ends after `most` bytes. */
struct collected {
    char text[400];
    size_t length;
    size_t most;
};

static bool collect(void *context, const char *text, size_t length)
{
    struct collected *collected = context;
    assert_true(collected->length + length < sizeof(collected->text));
    memcpy(collected->text + collected->length, text, length);
    collected->length += length;
    return collected->length < collected->most;
}

static void answers_come_piece_by_piece(void **state)
{
    (void)state;
    struct lathe_error error = {0};
    struct lathe_model *model = lathe_model_open(demo, NULL, &error);
    assert_non_null(model);
    assert_null(lathe_generator_create(model, 1, &error));
    assert_int_equal(error.code, LATHE_USAGE);
    struct lathe_generator *generator = lathe_generator_create(model, 64, &error);
    assert_non_null(generator);
    const char prompt[] = "Question: What is 2 + 3?\nAnswer:";
    int32_t ids[64];
    const size_t n = lathe_tokenizer_encode(lathe_model_tokenizer(model), prompt,
                                            strlen(prompt), true, ids, 64);
    const struct lathe_sampling sampling = {.max_tokens = 12};
    struct collected whole = {.most = SIZE_MAX};
    char *first = lathe_generate(generator, ids, n, &sampling, collect, &whole, &error);
    assert_non_null(first);
    assert_int_equal(strlen(first), whole.length);
    assert_memory_equal(first, whole.text, whole.length);
    /* The likeliest tokens are the same again, and with the same seed so are others. */
    char *again = lathe_generate(generator, ids, n, &sampling, NULL, NULL, &error);
    assert_string_equal(again, first);
    lathe_free(again);
    struct collected part = {.most = 1};
    again = lathe_generate(generator, ids, n, &sampling, collect, &part, &error);
    assert_true(strlen(again) < strlen(first));
    assert_memory_equal(again, first, strlen(again));
    lathe_free(again);
    lathe_free(first);

    const struct lathe_sampling wrong = {.top_p = 2.0};
    assert_null(lathe_generate(generator, ids, n, &wrong, NULL, NULL, &error));
    assert_int_equal(error.code, LATHE_USAGE);
    ids[0] = -1;
    assert_null(lathe_generate(generator, ids, n, NULL, NULL, NULL, &error));
    assert_null(lathe_generate(generator, ids, 0, NULL, NULL, NULL, NULL));
    lathe_generator_destroy(generator);
    lathe_generator_destroy(NULL);
    lathe_model_close(model);
}

int main(void)
{
    lathe_set_log_handler(NULL, NULL, LATHE_WARNING);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(a_fatal_error_reaches_the_handler),
        cmocka_unit_test(settings_are_those_of_a_run_file),
        cmocka_unit_test(the_table_of_settings_is_there),
        cmocka_unit_test(a_run_tells_its_steps),
        cmocka_unit_test(a_dry_run_tells_the_log_alone),
        cmocka_unit_test(a_run_can_be_stopped),
        cmocka_unit_test(text_becomes_tokens_and_text),
        cmocka_unit_test(a_conversation_has_one_bos),
        cmocka_unit_test(a_model_tells_its_facts),
        cmocka_unit_test(a_model_is_written),
        cmocka_unit_test(scores_are_the_references),
        cmocka_unit_test(wrong_rows_are_named),
        cmocka_unit_test(answers_come_piece_by_piece),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
