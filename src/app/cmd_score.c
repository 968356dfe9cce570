/*
 * cmd_score - lathe score: the loss of a model on text or on rows of any format.
 *
 * One example a row, in file order, so that losses go back to the rows they came from.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/data_arguments.h"
#include "backend/backend.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/batch.h"
#include "data/records.h"
#include "train/evaluate.h"
#include "train/job_data.h"
#include "train/model_source.h"
#include "train/settings_data.h"
#include "train/step.h"

/* What the command line gives; exactly one of text, chat, rows and tokens is set. */
struct score_arguments {
    const char *text;
    const char *chat;                       /* path */
    const char *rows;                       /* path; of any format */
    const char *tokens;                     /* path */
    const char *adapter;                    /* folder, or NULL */
    struct data_arguments data;             /* for chat and rows */
    bool is_json, is_per_token, wants_help; /* switches */
};

/* The loss of one row of the input. */
struct row_score {
    double loss_sum, weight_sum; /* loss = loss_sum / weight_sum, in nats */
    int64_t n_targets;
    json_t *token_loss; /* array, or NULL */
};

/* One run of the command; close_score takes it at any stage. */
struct score {
    struct score_arguments *given;
    struct model_source source; /* with a tokenizer unless rows hold tokens */
    struct records records;     /* the rows with a target */
    struct engine *engine;
    struct step *step;      /* on the engine, evaluation only */
    bool *is_trainable;     /* [params->n], all false */
    enum dtype *stored;     /* [params->n] as in the file where that can be read */
    struct row_score *rows; /* [records.counts.n_rows], dropped rows too */
    int32_t T, C;           /* tokens and targets of a batch, which is one row */
};

/* The text takes the way of a row of a file, so that it is encoded and checked by the
 * same code. jansson refuses text that is not UTF-8. */
static bool read_text(struct score *score, struct error *err)
{
    json_t *row = json_pack("{s:s}", "text", score->given->text);
    if (row == NULL) {
        return error_set(err, ERROR_USAGE, "--text: not UTF-8");
    }
    char *line = json_dumps(row, JSON_COMPACT);
    const struct records_options options = {.format = RECORDS_TEXT,
                                            .loss_on = RECORDS_LOSS_ON_ALL};
    const bool done = records_read_text(&score->records, line, strlen(line), "--text",
                                        &options, score->source.tokenizer, err);
    free(line);
    json_decref(row);
    return done;
}

/* --rows takes its format from the settings, --chat says it itself: a second, different
 * one is refused, for neither of them is sure to be the one that was meant. */
static bool choose_format(struct score_arguments *given, struct error *err)
{
    struct settings *settings = &given->data.settings;
    const bool is_told = data_arguments_has_format(&given->data);
    if (given->rows != NULL && !is_told) {
        return error_set(err, ERROR_USAGE,
                         "--rows: which format? Give --run RUN.yaml or --set "
                         "data.format=..., or --chat FILE for conversations");
    }
    if (given->chat != NULL && is_told && settings->data.format != RECORDS_CHAT) {
        return error_set(
            err, ERROR_USAGE,
            "--chat is for conversations, but data.format is %s: --rows FILE takes "
            "rows of that format",
            records_format_name((enum records_format)settings->data.format));
    }
    if (given->chat != NULL) {
        settings->data.format = RECORDS_CHAT;
    }
    return settings_data_check_format(settings, err);
}

/* Of --chat and --rows. Rendered and weighted as training does it, but whole: a row is
 * not cut, and neither left out nor split for its length. */
static bool read_rows(struct score *score, struct error *err)
{
    struct score_arguments *given = score->given;
    struct settings *settings = &given->data.settings;
    struct records_options options;
    if (!choose_format(given, err) ||
        !job_data_options(settings, score->source.path, score->source.tokenizer,
                          (int32_t)score->source.config.V, &options, err)) {
        return false;
    }
    options.row_tokens = 0;
    return records_read_file(&score->records,
                             given->chat != NULL ? given->chat : given->rows, &options,
                             score->source.tokenizer, err);
}

/* Ids are held against the model's vocabulary; there is no tokenizer to ask. */
static bool read_tokens(struct score *score, struct error *err)
{
    const struct records_options options = {
        .format = RECORDS_TOKENS, .n_vocabulary = (int32_t)score->source.config.V};
    return records_read_file(&score->records, score->given->tokens, &options, NULL,
                             err);
}

/* What the rows are called in messages. */
static const char *input_name(const struct score_arguments *given)
{
    return given->text != NULL   ? "--text"
           : given->chat != NULL ? given->chat
           : given->rows != NULL ? given->rows
                                 : given->tokens;
}

/* All rows share one compiled program, so T is the longest of them, rounded up to a
 * multiple of 16. A row that is longer than the model goes is an error and is not cut:
 * a loss of a part of it is not what was asked for. */
static bool read_input(struct score *score, struct error *err)
{
    const struct score_arguments *given = score->given;
    const bool is_read = given->text != NULL     ? read_text(score, err)
                         : given->tokens != NULL ? read_tokens(score, err)
                                                 : read_rows(score, err);
    if (!is_read) {
        return false;
    }
    int32_t longest = 0;
    for (size_t i = 0; i < score->records.n; i++) {
        longest = (int32_t)base_max(longest, records_example(&score->records, i).n);
    }
    if (score->records.n == 0) {
        return error_set(err, ERROR_DATA, "%s: no row with a target",
                         input_name(given));
    }
    if (longest > score->source.config.max_positions) {
        return error_set(err, ERROR_DATA, "a row has %d tokens, the model goes to %lld",
                         (int)longest, (long long)score->source.config.max_positions);
    }
    /* The capacity of a batch is the largest count of targets in any row. */
    score->T = (int32_t)base_round_up(longest, 16);
    score->C = evaluate_capacity(&score->records, 1, score->T, false);
    return true;
}

/* A step that trains nothing: no parameter is trainable, so there are no gradients and
 * no moments, only the evaluation program. One rank, f32. */
static bool create_step(struct score *score, struct error *err)
{
    /* All threads of the machine, and the instruction set that it does best. */
    const struct mesh mesh = mesh_single();
    const struct backend_options backend = {.isa = BACKEND_ISA_BEST};
    score->engine = backend_create_cpu(&mesh, 0, 1, &backend, err);
    if (score->engine == NULL) {
        return false;
    }
    score->is_trainable =
        mem_alloc_array((size_t)score->source.params->n, sizeof(bool));
    score->stored = model_source_dtypes(&score->source);
    const struct step_options options = {
        .shape = {.config = &score->source.config,
                  .params = score->source.params,
                  .is_trainable = score->is_trainable,
                  .stored = score->stored,
                  .has_ple_rows = score->source.config.P > 0,
                  .B = 1,
                  .T = score->T,
                  .C = score->C,
                  .compute = DTYPE_F32},
        .evaluates = true,
    };
    const struct step_source source = {.read = model_source_read,
                                       .view = model_source_view,
                                       .context = &score->source};
    score->step = step_create(score->engine, &options, &source, err);
    return score->step != NULL && step_load(score->step, err);
}

/* Batches hold one example each: its losses go to its source row. Sums in f64, in the
 * order of the targets. */
static void take_batch(void *context, const struct batch *batch,
                       const float *token_loss)
{
    struct score *score = context;
    ASSERT(batch->n_examples == 1);
    struct row_score *row = &score->rows[batch->source_rows[0]];
    /* loss_sum = sum of weight * loss, over the targets of the row. */
    row->n_targets = batch->n_targets;
    for (int32_t c = 0; c < batch->n_targets; c++) {
        row->loss_sum += (double)batch->weight[c] * (double)token_loss[c];
        row->weight_sum += (double)batch->weight[c];
        if (score->given->is_per_token) {
            row->token_loss = row->token_loss == NULL ? json_array() : row->token_loss;
            json_array_append_new(row->token_loss, json_real((double)token_loss[c]));
        }
    }
}

/* JSON has no NaN; the loss of a row without targets is one (0 / 0). */
static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Rows in the order of the input, also those without targets, so that callers can count
 * on the index. Losses come from f32 arithmetic, which nine digits hold.
 * json_object_set takes a reference of its own, so close_score can release the array
 * all the same. */
static void print_json(const struct score *score, const struct evaluate_result *result)
{
    json_t *rows = json_array();
    for (int64_t i = 0; i < score->records.counts.n_rows; i++) {
        const struct row_score *row = &score->rows[i];
        json_t *object = json_object();
        json_object_set_new(object, "loss",
                            number_or_null(row->loss_sum / row->weight_sum));
        json_object_set_new(object, "n_targets", json_integer(row->n_targets));
        if (row->token_loss != NULL) {
            json_object_set(object, "token_loss", row->token_loss);
        }
        json_array_append_new(rows, object);
    }
    json_t *root = json_object();
    json_object_set_new(root, "loss", number_or_null(result->loss));
    json_object_set_new(root, "n_targets", json_integer(result->n_targets));
    json_object_set_new(root, "rows", rows);
    json_dumpf(root, stdout, JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

/* Losses of rows only where there are several; those of tokens, only if asked for, in a
 * line below their row. Numbers of rows count from 1, as people count lines. The last
 * line is the mean over all targets, by weight; perplexity is its exp. */
static void print_text(const struct score *score, const struct evaluate_result *result)
{
    const bool has_rows = score->records.counts.n_rows > 1;
    for (int64_t i = 0; i < score->records.counts.n_rows; i++) {
        const struct row_score *row = &score->rows[i];
        if (has_rows && row->n_targets == 0) {
            printf("row %lld: no targets\n", (long long)i + 1);
        } else if (has_rows) {
            printf("row %lld: loss %.6f over %lld targets\n", (long long)i + 1,
                   row->loss_sum / row->weight_sum, (long long)row->n_targets);
        }
        for (size_t c = 0; c < json_array_size(row->token_loss); c++) {
            printf("%.6f%s", json_real_value(json_array_get(row->token_loss, c)),
                   c + 1 == json_array_size(row->token_loss) ? "\n" : " ");
        }
    }
    printf("loss %.6f over %lld targets (perplexity %.4g)\n", result->loss,
           (long long)result->n_targets, exp(result->loss));
}

/* Results go out only when all rows are done: an error never follows half an answer.
 * The rows are allocated only once their number is known; visit fills them while the
 * batches go by. */
static bool run(struct score *score, const char *model, struct error *err)
{
    if (!model_source_open(&score->source, model, true, score->given->tokens == NULL,
                           err) ||
        (score->given->adapter != NULL &&
         !model_source_open_adapter(&score->source, score->given->adapter, err)) ||
        !read_input(score, err) || !create_step(score, err)) {
        return false;
    }
    score->rows =
        mem_alloc_array((size_t)score->records.counts.n_rows, sizeof(*score->rows));
    const struct evaluate_options options = {.B = 1,
                                             .T = score->T,
                                             .C = score->C,
                                             .is_packed = false,
                                             .pad_id = score->source.config.pad_id,
                                             .visit = take_batch,
                                             .context = score};
    struct evaluate_result result;
    if (!evaluate_run(score->step, &score->records, &options, &result, err)) {
        return false;
    }
    if (score->given->is_json) {
        print_json(score, &result);
    } else {
        print_text(score, &result);
    }
    return true;
}

/* The step goes before the engine that holds its arrays, records and model after both.
 * Each part takes its zeroed state. */
static void close_score(struct score *score)
{
    for (int64_t i = 0; score->rows != NULL && i < score->records.counts.n_rows; i++) {
        json_decref(score->rows[i].token_loss);
    }
    mem_free(score->rows);
    mem_free(score->is_trainable);
    mem_free(score->stored);
    step_destroy(score->step);
    backend_destroy(score->engine);
    records_deinit(&score->records);
    model_source_close(&score->source);
}

/* What the options leave open or contradict. */
static bool check_arguments(const struct command *command,
                            const struct score_arguments *given,
                            const struct arguments *arguments, struct error *err)
{
    const int n_inputs = (given->text != NULL) + (given->chat != NULL) +
                         (given->rows != NULL) + (given->tokens != NULL);
    if (arguments->n != 1 || n_inputs != 1) {
        return command_usage_error(
            command,
            "expected one model and one of --text, --chat, --rows and --tokens", err);
    }
    const bool has_rows = given->chat != NULL || given->rows != NULL;
    if (!has_rows && (given->data.run != NULL || given->data.sets.n > 0)) {
        return command_usage_error(command, "--run and --set are for --rows and --chat",
                                   err);
    }
    return true;
}

/* With --json notes are kept off the terminal, where the two streams would mix.
 * Everything lives in one struct, so there is one way out. */
bool cmd_score(const struct command *command, int argc, char *const *argv,
               struct error *err)
{
    struct score_arguments given = {0};
    const struct argument_option options[] = {
        {"--text", "TEXT", ARGUMENT_TEXT, &given.text, "a text, loss on every token"},
        {"--chat", "FILE.jsonl", ARGUMENT_TEXT, &given.chat,
         "conversations, loss on what the model says"},
        {"--rows", "FILE.jsonl", ARGUMENT_TEXT, &given.rows,
         "rows in the format of --run or --set, loss as in training"},
        {"--tokens", "FILE.jsonl", ARGUMENT_TEXT, &given.tokens,
         "rows with input_ids and, if wanted, labels and more"},
        {"--run", "RUN.yaml", ARGUMENT_TEXT, &given.data.run,
         "rows, chat: the data settings of a run file"},
        {"--set", "KEY=VALUE", ARGUMENT_LIST, &given.data.sets,
         "rows, chat: a setting, as data.loss_on=last-response"},
        {"--adapter", "DIR", ARGUMENT_TEXT, &given.adapter,
         "a LoRA adapter (PEFT layout) to merge into the model"},
        {"--json", NULL, ARGUMENT_SWITCH, &given.is_json, "one JSON object"},
        {"--per-token", NULL, ARGUMENT_SWITCH, &given.is_per_token,
         "the loss of each target as well"},
        {"--help", NULL, ARGUMENT_SWITCH, &given.wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &given.wants_help, &arguments,
                       err)) {
        return false;
    }
    if (given.wants_help) {
        return true;
    }
    if (!check_arguments(command, &given, &arguments, err)) {
        return false;
    }
    struct score score = {.given = &given};
    log_set_level(given.is_json ? LOG_WARNING : LOG_NOTE);
    const bool done =
        data_arguments_read(&given.data, err) && run(&score, arguments.items[0], err);
    close_score(&score);
    data_arguments_deinit(&given.data);
    return done;
}
