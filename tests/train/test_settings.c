/*
 * Settings from file, environment and command line: the contract's keys, the order of
 * winning, and one clear line for each kind of mistake (C40: unknown keys are errors with
 * line, column and the nearest valid key).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/settings.h"

static bool read(struct settings *settings, const char *text, struct error *err)
{
    return settings_read_text(settings, text, strlen(text), "run.yaml", err);
}

/* The message for a run file that must be refused. */
static void assert_refused(const char *text, const char *message)
{
    struct settings settings;
    struct error err;
    settings_init(&settings);
    if (read(&settings, text, &err)) {
        fail_msg("accepted: %s", text);
    }
    assert_string_equal(err.message, message);
    assert_int_equal(error_exit_code(err.kind), 2);
    settings_deinit(&settings);
}

static const char contract[] =
    "model: models/gemma-3-270m.gguf     # folder in Hugging Face layout, or .gguf\n"
    "run: runs/gsm8k\n"
    "seed: 1\n"
    "precision: f32\n"
    "engine: cpu\n"
    "data:\n"
    "  train: data/train.jsonl\n"
    "  eval: data/test.jsonl\n"
    "  format: instruction\n"
    "  template: \"Instruction: {question}\\nResponse: \"\n"
    "  response: answer\n"
    "  ignore: []\n"
    "  end: eos\n"
    "  loss_on: response\n"
    "  row_tokens: 512\n"
    "  pack: true\n"
    "  shuffle: true\n"
    "train:\n"
    "  epochs: 3\n"
    "  batch_rows: 8\n"
    "  micro_rows: 2\n"
    "  optimizer: {name: adamw, lr: 2.0e-5, beta1: 0.9, beta2: 0.999, eps: 1.0e-8, "
    "weight_decay: 0.01}\n"
    "  schedule: {kind: cosine, warmup_steps: 20, final_lr: 0.0}\n"
    "  clip_norm: 1.0\n"
    "  freeze: [\"*embed_tokens_per_layer*\"]\n"
    "  recompute: auto\n"
    "eval: {every_steps: 50, at_epoch_end: true, max_rows: 256}\n";

static void assert_contract(const struct settings *s)
{
    assert_string_equal(s->model, "models/gemma-3-270m.gguf");
    assert_string_equal(s->run, "runs/gsm8k");
    assert_int_equal(s->seed, 1);
    assert_string_equal(s->data.template_text, "Instruction: {question}\nResponse: ");
    assert_int_equal(s->data.format, RECORDS_INSTRUCTION);
    assert_int_equal(s->data.ignore.n, 0);
    assert_int_equal(s->data.end, DATA_END_EOS);
    assert_int_equal(s->data.row_tokens, 512);
    assert_int_equal(s->train.epochs, 3);
    assert_int_equal(s->train.batch_rows, 8);
    assert_int_equal(s->train.micro_rows, 2);
    assert_true(s->train.optimizer.lr == 2e-5);
    assert_true(s->train.optimizer.eps == 1e-8);
    assert_int_equal(s->train.schedule.kind, SCHEDULE_COSINE);
    assert_int_equal(s->train.schedule.warmup_steps, 20);
    assert_int_equal(s->train.freeze.n, 1);
    assert_string_equal(s->train.freeze.items[0], "*embed_tokens_per_layer*");
    assert_int_equal(s->train.recompute, RECOMPUTE_AUTO);
    assert_int_equal(s->eval.every_steps, 50);
    assert_int_equal(s->eval.max_rows, 256);
}

static void the_contracts_keys_are_read(void **state)
{
    (void)state;
    struct settings settings;
    struct error err;
    settings_init(&settings);
    if (!read(&settings, contract, &err) || !settings_check(&settings, &err)) {
        fail_msg("%s", err.message);
    }
    assert_contract(&settings);
    settings_deinit(&settings);
}

static void what_is_printed_reads_back_the_same(void **state)
{
    (void)state;
    struct settings first;
    struct settings second;
    struct error err;
    settings_init(&first);
    settings_init(&second);
    assert_true(read(&first, contract, &err));
    struct str text = {0};
    settings_print_yaml(&first, &text);
    if (!read(&second, text.text, &err)) {
        fail_msg("%s\n%s", err.message, text.text);
    }
    assert_contract(&second);
    assert_non_null(strstr(text.text, "    beta1: 0.9\n"));
    struct str again = {0};
    settings_print_yaml(&second, &again);
    assert_string_equal(text.text, again.text);
    str_deinit(&text);
    str_deinit(&again);
    settings_deinit(&first);
    settings_deinit(&second);
}

/* Characters that YAML folds, or refuses unless they are escaped. */
static void any_text_reads_back_the_same(void **state)
{
    (void)state;
    static const char odd[] = "a\x7f \xc2\x85 \xe2\x80\xa8 \xc2\x9f \xef\xbb\xbf "
                              "\xf0\x9f\x98\x80 \xc3\xa9 \t\r\n\x01 \"'\\ end ";
    struct settings first;
    struct settings second;
    struct error err;
    settings_init(&first);
    settings_init(&second);
    first.data.template_text = odd;
    struct str text = {0};
    settings_print_yaml(&first, &text);
    if (!read(&second, text.text, &err)) {
        fail_msg("%s\n%s", err.message, text.text);
    }
    assert_string_equal(second.data.template_text, odd);
    str_deinit(&text);
    settings_deinit(&first);
    settings_deinit(&second);
}

static void later_sources_win(void **state)
{
    (void)state;
    struct settings settings;
    struct error err;
    settings_init(&settings);
    assert_true(read(&settings, "train: {epochs: 3, clip_norm: 1}", &err));
    setenv("LATHE_TRAIN_EPOCHS", "5", 1);
    setenv("LATHE_TRAIN_FREEZE", "[\"*a*\", \"*b*\"]", 1);
    setenv("LATHE_TRAIN_OPTIMIZER_LR", "1e-3", 1);
    assert_true(settings_read_environment(&settings, &err));
    unsetenv("LATHE_TRAIN_EPOCHS");
    unsetenv("LATHE_TRAIN_FREEZE");
    unsetenv("LATHE_TRAIN_OPTIMIZER_LR");
    assert_int_equal(settings.train.epochs, 5);
    assert_int_equal(settings.train.freeze.n, 2);
    assert_true(settings.train.optimizer.lr == 1e-3);
    assert_true(settings_set_key(&settings, "train.freeze", "[a, b]", "--it", &err));
    assert_int_equal(settings.train.freeze.n, 2);
    assert_true(settings_set(&settings, "train.epochs=7", &err));
    assert_true(settings_set(&settings, "data.template=\"Q: {q}\\nA: \"", &err));
    assert_int_equal(settings.train.epochs, 7);
    assert_string_equal(settings.data.template_text, "Q: {q}\nA: ");
    assert_true(settings.train.clip_norm == 1.0);
    settings_deinit(&settings);
}

static void mistakes_get_one_clear_line(void **state)
{
    (void)state;
    assert_refused("train:\n  epoch: 3\n",
                   "run.yaml:2:3: unknown setting train.epoch; did you mean "
                   "train.epochs?");
    assert_refused("seed: one\n", "run.yaml:1:7: seed: expected a whole number, got "
                                  "'one'");
    assert_refused("seed: -1\n", "run.yaml:1:7: seed: -1 is below 0, the least");
    assert_refused("train: {clip_norm: .inf}",
                   "run.yaml:1:20: train.clip_norm: expected a number, got '.inf'");
    assert_refused("data: {row_tokens: 1}",
                   "run.yaml:1:20: data.row_tokens: 1 is not within 2 to 1048576");
    assert_refused("data: {format: csv}",
                   "run.yaml:1:16: data.format: expected chat | "
                   "prompt-completion | instruction | text | tokens, got 'csv'");
    assert_refused("data: {pack: maybe}",
                   "run.yaml:1:14: data.pack: expected true or false, got 'maybe'");
    assert_refused("seed: 1\nseed: 2\n", "run.yaml:2:7: seed is given twice");
    assert_refused("data: 3\n",
                   "run.yaml:1:1: data is a section: expected its keys below it");
    assert_refused("train: {freeze: {a: b}}",
                   "run.yaml:1:17: train.freeze: expected a list, as [\"a\", \"b\"]");
    assert_refused("- a\n- b\n", "run.yaml:1:1: expected settings, as key: value");
    assert_refused("a: &x 1\nseed: *x\n",
                   "run.yaml:1:1: unknown setting a; `lathe settings` lists them");
    assert_refused("seed: 1\n---\nseed: 2\n", "run.yaml:2:1: a second document begins "
                                              "here");
    assert_refused("seed:\n", "run.yaml:1:6: seed has no value");
    assert_refused("model: \"a\\0b\"\n", "run.yaml:1:8: text with a zero byte in it");
}

static void broken_yaml_names_its_place(void **state)
{
    (void)state;
    struct settings settings;
    struct error err;
    settings_init(&settings);
    assert_false(read(&settings, "data: {train: [a\n", &err));
    assert_true(strncmp(err.message, "run.yaml:", 9) == 0);
    assert_false(read(&settings, "seed: \xff\xfe\n", &err));
    assert_true(strncmp(err.message, "run.yaml:", 9) == 0);
    assert_true(read(&settings, "", &err)); /* nothing is set: fine here */
    assert_true(read(&settings, "# only a comment\n", &err));
    settings_deinit(&settings);
}

static void set_and_environment_name_their_source(void **state)
{
    (void)state;
    struct settings settings;
    struct error err;
    settings_init(&settings);
    assert_false(settings_set(&settings, "train.epoch=3", &err));
    assert_string_equal(err.message, "--set: unknown setting train.epoch; did you mean "
                                     "train.epochs?");
    assert_false(settings_set(&settings, "train.epochs", &err));
    assert_string_equal(err.message, "--set train.epochs: expected key=value");
    assert_false(settings_set(&settings, "train=3", &err));
    assert_string_equal(err.message, "--set: train is a section: give its keys");
    assert_false(settings_set_key(&settings, "a=b", "1", "--it", &err));
    assert_non_null(strstr(err.message, "--it: unknown setting a=b"));
    assert_false(settings_set_key(&settings, "train.epochs", "x", "--it", &err));
    assert_non_null(strstr(err.message, "train.epochs: expected a whole number"));
    assert_int_equal(strncmp(err.message, "--it:", 5), 0);
    setenv("LATHE_SEED", "x", 1);
    assert_false(settings_read_environment(&settings, &err));
    unsetenv("LATHE_SEED");
    assert_string_equal(err.message, "LATHE_SEED: seed: expected a whole number, got "
                                     "'x'");
    setenv("LATHE_TRAIN_STEP", "3", 1);
    assert_false(settings_read_environment(&settings, &err));
    unsetenv("LATHE_TRAIN_STEP");
    assert_string_equal(err.message,
                        "LATHE_TRAIN_STEP: unknown setting train.step; did "
                        "you mean train.steps?");
    setenv("LATHE_OF_SOMEBODY_ELSE", "3", 1);
    assert_true(settings_read_environment(&settings, &err));
    unsetenv("LATHE_OF_SOMEBODY_ELSE");
    settings_deinit(&settings);
}

/* Each thing that settings_check wants, taken away once. */
static void what_is_missing_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *change;
        const char *starts;
    } cases[] = {
        {"model=null", "model is missing"},
        {"run=null", "run is missing"},
        {"data.train=null", "data.train is missing"},
        {"model=\"\"", "model is missing"},
        {"data.train=[\"\"]", "data.train: name 1 is empty"},
        {"data.eval=[\"a\", \"\"]", "data.eval: name 2 is empty"},
        {"data.template=null", "data.template is missing"},
        {"data.response=null", "data.response is missing"},
        {"train.epochs=0", "give train.epochs or train.steps"},
        {"train.batch_rows_per_rank=4",
         "train.batch_rows and train.batch_rows_per_rank"},
        {"data.eval=null", "eval.every_steps is 50, but there is no data.eval"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct settings settings;
        struct error err;
        settings_init(&settings);
        assert_true(read(&settings, contract, &err));
        assert_true(settings_set(&settings, cases[i].change, &err));
        assert_false(settings_check(&settings, &err));
        if (strncmp(err.message, cases[i].starts, strlen(cases[i].starts)) != 0) {
            fail_msg("%s: %s", cases[i].change, err.message);
        }
        settings_deinit(&settings);
    }
}

static bool is_same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Numbers of their own for some tensors: read, printed, and read back the same. */
/* A complete run file, and what makes its adapters contradict themselves. */
static void settings_of_adapters_go_together(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: in order */
    } cases[] = {
        {"lora: {rank: 8}", NULL},
        {"lora: {rank: 8, alpha: 4, dropout: 0.1, targets: [q_proj, \"*.v_proj\"]}",
         NULL},
        {"lora: {adapter: runs/a/adapter, dropout: 0.1}", NULL},
        {"lora: {targets: [q_proj]}", "lora.targets is given, but lora.rank is 0"},
        {"lora: {dropout: 0.1}", "lora.dropout is given, but lora.rank is 0"},
        {"lora: {alpha: 32}", "lora.alpha is given, but lora.rank is 0"},
        {"lora: {base: bf16}", "lora.base is given, but lora.rank is 0"},
        {"lora: {alpha: 16, base: file}", NULL},
        {"sample: {every_steps: 2}", "sample.every_steps is given, but there are no"},
        {"sample: {max_tokens: 8}", "sample.max_tokens is given, but there are no"},
        {"sample: {temperature: 1}", "sample.temperature is given, but there are no"},
        {"sample: {every_steps: 2, prompts: [a]}", NULL},
        {"lora: {rank: 8, alpha: 0}", "lora.alpha is 0"},
        {"lora: {adapter: a, targets: [q_proj]}", "do not go together"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[400];
        snprintf(text, sizeof(text),
                 "model: m\nrun: r\ndata: {train: t, format: text}\n"
                 "train: {steps: 1}\n%s\n",
                 cases[i].text);
        struct settings settings;
        struct error err = {.message = ""};
        settings_init(&settings);
        assert_true(read(&settings, text, &err));
        assert_int_equal(settings_check(&settings, &err), cases[i].says == NULL);
        if (cases[i].says != NULL && strstr(err.message, cases[i].says) == NULL) {
            fail_msg("%s", err.message);
        }
        settings_deinit(&settings);
    }
}

static void groups_of_parameters_read_back_the_same(void **state)
{
    (void)state;
    static const char text[] =
        "train:\n"
        "  param_groups:\n"
        "    - {match: \"*norm*\", lr: 1.0e-5, weight_decay: 0.0}\n"
        "    - match: \"*embed*\"\n"
        "      weight_decay: 0.5\n";
    struct settings settings[2];
    struct error err;
    struct str printed = {0};
    for (int i = 0; i < 2; i++) {
        settings_init(&settings[i]);
        assert_int_equal(settings[i].train.param_groups.n, 0);
        if (!read(&settings[i], i == 0 ? text : printed.text, &err)) {
            fail_msg("%s", err.message);
        }
        const struct param_group_list *groups = &settings[i].train.param_groups;
        assert_int_equal(groups->n, 2);
        assert_string_equal(groups->items[0].match, "*norm*");
        assert_true(groups->items[0].lr == 1e-5);
        assert_true(groups->items[0].weight_decay == 0.0);
        assert_string_equal(groups->items[1].match, "*embed*");
        assert_true(is_same_number(groups->items[1].lr, (double)NAN));
        assert_true(groups->items[1].weight_decay == 0.5);
        settings_print_yaml(&settings[i], &printed);
    }
    assert_true(
        settings_set(&settings[0], "train.param_groups=[{match: a, lr: 2}]", &err));
    assert_int_equal(settings[0].train.param_groups.n, 1);
    assert_true(settings_set(&settings[0], "train.param_groups=null", &err));
    assert_int_equal(settings[0].train.param_groups.n, 0);
    str_deinit(&printed);
    settings_deinit(&settings[0]);
    settings_deinit(&settings[1]);
}

static void wrong_groups_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *message;
    } cases[] = {
        {"[{match: a, lrr: 1}]",
         ":1:33: unknown setting train.param_groups.lrr; did you "
         "mean lr?"},
        {"[{match: a, lr: 1, lr: 2}]", "train.param_groups.lr is given twice"},
        {"[{match: a, match: b}]", "train.param_groups.match is given twice"},
        {"[{lr: 1}]", "an entry without match"},
        {"[{match: \"\", lr: 1}]", "an entry without match"},
        {"[{match: a, lr: fast}]", "lr: expected a number, got 'fast'"},
        {"[{match: a, lr: -1}]", "-1 is not within 0 to 1000"},
        {"[{match: a, weight_decay: 11}]", "11 is not within 0 to 10"},
        {"[{match: a, lr: [1]}]", "expected a single value"},
        {"[{match: a, lr: null}]", "expected a single value"},
        {"[a]", "expected an entry as {match: "},
        {"a", "expected a list"},
        {"{match: a}", "expected a list"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct settings settings;
        struct error err;
        struct str text = {0};
        settings_init(&settings);
        str_printf(&text, "train.param_groups: %s\n", cases[i].value);
        assert_false(read(&settings, text.text, &err));
        if (strstr(err.message, cases[i].message) == NULL) {
            fail_msg("%s: %s", cases[i].value, err.message);
        }
        str_deinit(&text);
        settings_deinit(&settings);
    }
}

/* The run files of the project are in order, as far as settings alone can tell. */
static void examples_are_in_order(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "examples/reference.yaml", "examples/gsm8k-270m.yaml",
        "examples/demo/demo.yaml", "examples/demo/pretrain.yaml"};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        struct settings settings;
        struct error err;
        settings_init(&settings);
        if (!settings_read_file(&settings, paths[i], &err) ||
            !settings_check(&settings, &err)) {
            fail_msg("%s", err.message);
        }
        settings_deinit(&settings);
    }
}

/* D1, D4 to D7, D9: the numbers of the reference script, each against lathe's default. */
static void the_reference_recipe_is_the_scripts(void **state)
{
    (void)state;
    struct settings script;
    struct settings ours;
    struct error err;
    settings_init(&script);
    settings_init(&ours);
    if (!settings_read_file(&script, "examples/reference.yaml", &err) ||
        !settings_check(&script, &err)) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(script.data.template_text,
                        "Instruction: {instruction}\nResponse: ");
    assert_int_equal(script.data.row_tokens, 512);
    assert_int_equal(script.data.ignore.n, 2); /* D4 */
    assert_string_equal(script.data.ignore.items[0], "context");
    assert_string_equal(script.data.ignore.items[1], "category");
    assert_int_equal(ours.data.ignore.n, 0);
    assert_true(script.data.shuffle);
    assert_false(script.data.pack);
    assert_true(ours.data.pack);
    assert_int_equal(script.data.loss_on, RECORDS_LOSS_ON_ALL);
    assert_int_equal(ours.data.loss_on, RECORDS_LOSS_ON_RESPONSE);
    assert_int_equal(script.data.end, DATA_END_NONE);
    assert_int_equal(ours.data.end, DATA_END_EOS);
    assert_int_equal(script.precision, PRECISION_BF16);
    assert_int_equal(ours.precision, PRECISION_F32);
    assert_int_equal(script.train.epochs, 3);
    assert_int_equal(script.train.batch_rows_per_rank, 4);
    assert_true(script.train.optimizer.lr == 2e-5);
    assert_true(script.train.optimizer.weight_decay == 0.01);
    assert_true(script.train.optimizer.beta1 == 0.9);
    assert_true(script.train.optimizer.beta2 == 0.999);
    assert_true(script.train.optimizer.eps == 1e-8);
    assert_int_equal(script.train.rounding, ROUNDING_NEAREST); /* D7 */
    assert_int_equal(ours.train.rounding, ROUNDING_AUTO);
    assert_true(script.train.clip_norm == 0.0);
    assert_true(ours.train.clip_norm == 1.0);
    assert_int_equal(script.train.schedule.kind, SCHEDULE_CONSTANT);
    assert_int_equal(script.train.schedule.warmup_steps, 0);
    assert_int_equal(script.train.freeze.n, 1);
    assert_string_equal(script.train.freeze.items[0], "*embed_tokens_per_layer*");
    settings_deinit(&script);
    settings_deinit(&ours);
}

/* What looks at held-out loss needs held-out rows. */
static void looking_needs_something_to_look_at(void **state)
{
    (void)state;
    static const char *const assignments[] = {"eval.patience=3", "eval.every_steps=5"};
    for (size_t i = 0; i < ARRAY_LENGTH(assignments); i++) {
        struct settings settings;
        struct error err;
        settings_init(&settings);
        assert_true(read(&settings, contract, &err));
        assert_true(settings_set(&settings, "data.eval=null", &err));
        assert_true(settings_set(&settings, "eval.every_steps=0", &err));
        assert_true(settings_check(&settings, &err));
        assert_true(settings_set(&settings, assignments[i], &err));
        assert_false(settings_check(&settings, &err));
        assert_non_null(strstr(err.message, "data.eval"));
        assert_true(settings_set(&settings, "data.eval_share=0.1", &err));
        if (!settings_check(&settings, &err)) {
            fail_msg("%s", err.message);
        }
        settings_deinit(&settings);
    }
}

/* D7: chance is for weights that are kept in bf16; elsewhere it would do nothing. */
static void rounding_by_chance_needs_bf16(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_right;
    } cases[] = {
        {"precision: bf16\ntrain: {steps: 1, rounding: stochastic}", true},
        {"precision: bf16\ntrain: {steps: 1, rounding: nearest}", true},
        {"precision: bf16-compute\ntrain: {steps: 1}", true},
        {"precision: bf16-compute\ntrain: {steps: 1, rounding: auto}", true},
        {"precision: bf16-compute\ntrain: {steps: 1, rounding: stochastic}", false},
        {"train: {steps: 1, rounding: stochastic}", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[400];
        snprintf(text, sizeof(text),
                 "model: m\nrun: r\ndata: {train: t, format: text}\n%s\n",
                 cases[i].text);
        struct settings settings;
        struct error err = {.message = ""};
        settings_init(&settings);
        assert_true(read(&settings, text, &err));
        assert_int_equal(settings_check(&settings, &err), cases[i].is_right);
        if (!cases[i].is_right) {
            assert_non_null(strstr(err.message, "it needs precision bf16"));
        }
        settings_deinit(&settings);
    }
}

/* Sizes have suffixes, in powers of 1024; anything else is refused with an example. */
static void bytes_may_have_a_suffix(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"0", 0},
        {"9223372036854775807", INT64_MAX},
        {"3K", 3072},
        {"3KiB", 3072},
        {"512M", 536870912},
        {"1.5GiB", 1610612736},
        {"2G", 2147483648},
    };
    static const char *const bad[] = {
        "-1",   "-1G",  "GiB",         "1.5",
        "1GB",  "1 G",  "1g",          "1e3",
        "1T",   "1Gi",  ".G",          "1..5G",
        "nanG", "0x1G", "9999999999G", "9223372036854775808"};
    char text[100];
    struct error err;
    struct settings settings;
    settings_init(&settings);
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        snprintf(text, sizeof(text), "memory_limit: %s\n", good[i].text);
        assert_true(read(&settings, text, &err));
        assert_true(settings.memory_limit == good[i].bytes);
    }
    settings_deinit(&settings);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        char message[300];
        snprintf(text, sizeof(text), "memory_limit: %s\n", bad[i]);
        snprintf(message, sizeof(message),
                 "run.yaml:1:15: memory_limit: expected bytes, as 4000000000, 512M or "
                 "1.5GiB (K, M, G, KiB, MiB, GiB: powers of 1024), got '%s'",
                 bad[i]);
        assert_refused(text, message);
    }
}

/* The listing names the unit behind the default. */
static void the_listing_has_units(void **state)
{
    (void)state;
    struct str out = {0};
    settings_print_summary(&out);
    assert_non_null(strstr(str_text(&out), "memory_limit: 0  [bytes]\n"));
    assert_non_null(strstr(str_text(&out), "data.row_tokens: 512  [tokens]\n"));
    assert_non_null(strstr(str_text(&out), "train.clip_norm: 1\n"));
    str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_may_have_a_suffix),
        cmocka_unit_test(the_listing_has_units),
        cmocka_unit_test(the_contracts_keys_are_read),
        cmocka_unit_test(what_is_printed_reads_back_the_same),
        cmocka_unit_test(any_text_reads_back_the_same),
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(mistakes_get_one_clear_line),
        cmocka_unit_test(broken_yaml_names_its_place),
        cmocka_unit_test(set_and_environment_name_their_source),
        cmocka_unit_test(what_is_missing_is_told),
        cmocka_unit_test(settings_of_adapters_go_together),
        cmocka_unit_test(rounding_by_chance_needs_bf16),
        cmocka_unit_test(groups_of_parameters_read_back_the_same),
        cmocka_unit_test(wrong_groups_are_refused),
        cmocka_unit_test(examples_are_in_order),
        cmocka_unit_test(the_reference_recipe_is_the_scripts),
        cmocka_unit_test(looking_needs_something_to_look_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
