/*
 * finetune - fine-tunes a model for a few steps, asks it something, saves it. All of it
 * against the public library:
 *
 *     cc finetune.c $(pkg-config --cflags --libs lathe) -o finetune
 *     ./finetune examples/demo/model examples/demo/train.jsonl tuned
 *
 * With the library in a folder of your own (make install PREFIX=$HOME/lathe), set
 * PKG_CONFIG_PATH=$HOME/lathe/lib/pkgconfig to compile, and let the program find it
 * when it runs: add -Wl,-rpath,$HOME/lathe/lib here, or set
 * LD_LIBRARY_PATH=$HOME/lathe/lib.
 *
 * The third argument is the run folder, which is replaced when it is there.
 */
#include <lathe/lathe.h>
#include <stdio.h>
#include <string.h>

enum { N_STEPS = 4, MAX_PROMPT = 256 };

/* The rest of the run file; model, data and folder come from the command line. */
static const char run_file[] = "data:\n"
                               "  format: instruction\n"
                               "  template: \"Question: {question}\\nAnswer: \"\n"
                               "  response: answer\n"
                               "  row_tokens: 256\n"
                               "train:\n"
                               "  batch_rows: 4\n"
                               "  optimizer: {lr: 1.0e-3}\n"
                               "  freeze: [\"*embed_tokens_per_layer*\"]\n";

/* Notes and warnings of the library; without a handler they go to stderr as well. */
static void print_line(void *context, int level, const char *line)
{
    (void)context;
    fprintf(stderr, "%s%s\n", level <= LATHE_WARNING ? "! " : "  ", line);
}

/* One line a step. `context` counts the steps; false would end the run. */
static bool print_step(void *context, const struct lathe_step *step)
{
    int *n_steps = context;
    (*n_steps)++;
    printf("step %lld/%lld  loss %.4f  rate %.2g  %.0f ms\n", (long long)step->step,
           (long long)step->n_steps, step->loss, step->lr, step->step_ms);
    return true;
}

/* Sets what the run file leaves open, and trains. */
static bool train(const char *const *paths, int *n_steps, struct lathe_error *error)
{
    static const char *const keys[] = {"model", "data.train", "run"};
    char steps[16];
    snprintf(steps, sizeof(steps), "%d", N_STEPS);
    struct lathe_settings *settings = lathe_settings_create();
    bool done = lathe_settings_read_text(settings, run_file, strlen(run_file),
                                         "finetune.c", error);
    for (int i = 0; i < 3 && done; i++) {
        done = lathe_settings_set(settings, keys[i], paths[i], error);
    }
    done = done && lathe_settings_set(settings, "train.epochs", "0", error) &&
           lathe_settings_set(settings, "train.steps", steps, error) &&
           lathe_train(settings, LATHE_TRAIN_OVERWRITE, print_step, n_steps, error);
    lathe_settings_destroy(settings);
    return done;
}

/* Called with each piece of the answer. */
static bool print_text(void *context, const char *text, size_t length)
{
    (void)context;
    return fwrite(text, 1, length, stdout) == length;
}

/* One line from the model, as it comes. */
static bool answer(struct lathe_model *model, const char *prompt,
                   struct lathe_error *error)
{
    int32_t ids[MAX_PROMPT];
    const size_t n = lathe_tokenizer_encode(lathe_model_tokenizer(model), prompt,
                                            strlen(prompt), true, ids, MAX_PROMPT);
    struct lathe_generator *generator = lathe_generator_create(model, 512, error);
    if (generator == NULL) {
        return false;
    }
    const struct lathe_sampling sampling = {.max_tokens = 24};
    printf("%s", prompt);
    char *text = lathe_generate(generator, ids, n < MAX_PROMPT ? n : MAX_PROMPT,
                                &sampling, print_text, NULL, error);
    putchar('\n');
    const bool done = text != NULL;
    lathe_free(text);
    lathe_generator_destroy(generator);
    return done;
}

/* The loss of a sentence: how surprised the model is by it. */
static bool score(struct lathe_model *model, const char *text,
                  struct lathe_error *error)
{
    int32_t ids[MAX_PROMPT];
    const size_t n = lathe_tokenizer_encode(lathe_model_tokenizer(model), text,
                                            strlen(text), true, ids, MAX_PROMPT);
    const struct lathe_row row = {.ids = ids, .n = n < MAX_PROMPT ? n : MAX_PROMPT};
    struct lathe_score result;
    if (!lathe_model_score(model, &row, 1, &result, NULL, error)) {
        return false;
    }
    printf("loss %.4f over %lld tokens: %s\n", result.loss_sum / result.weight_sum,
           (long long)result.n_targets, text);
    return true;
}

/* A file name inside the run folder. */
static const char *inside(char buffer[4096], const char *run, const char *name)
{
    snprintf(buffer, 4096, "%s/%s", run, name);
    return buffer;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL ROWS.jsonl RUN-FOLDER\n", argv[0]);
        return LATHE_USAGE;
    }
    lathe_set_log_handler(print_line, NULL, LATHE_NOTE);
    struct lathe_error error;
    struct lathe_model *model = NULL;
    char path[4096];
    int n_steps = 0;
    bool done = train((const char *const *)argv + 1, &n_steps, &error);
    if (done) {
        model = lathe_model_open(inside(path, argv[3], "model"), NULL, &error);
        done = model != NULL &&
               answer(model, "Question: What is 2 + 3?\nAnswer:", &error) &&
               score(model, "Tom has 5 apples.", &error) &&
               lathe_model_write(model, inside(path, argv[3], "model-bf16"), "bf16",
                                 &error);
    }
    lathe_model_close(model);
    if (!done) {
        fprintf(stderr, "finetune: %s\n", error.message);
        return error.code;
    }
    printf("%d steps done; the model in bf16 is in %s\n", n_steps, path);
    return 0;
}
