/*
 * settings - what a run is told to do, from one table (settings.def).
 *
 * Three sources, the later one wins: the run file (YAML), the environment
 * (LATHE_TRAIN_EPOCHS for train.epochs), and --set train.epochs=3. An unknown key is an
 * error with line, column and the nearest valid key; a value out of range says what is
 * allowed.
 *
 *     struct settings settings;
 *     settings_init(&settings);
 *     if (!settings_read_file(&settings, "run.yaml", err) ||
 *         !settings_read_environment(&settings, err) ||
 *         !settings_set(&settings, "train.epochs=3", err) ||
 *         !settings_check(&settings, err)) ...
 *     settings_deinit(&settings);
 */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include "base/arena.h"
#include "base/str.h"
#include "data/records.h"

struct error;

enum precision { PRECISION_F32, PRECISION_BF16_COMPUTE, PRECISION_BF16 };
enum engine_kind { ENGINE_CPU };
enum init_kind { INIT_WEIGHTS, INIT_RANDOM };
enum data_end { DATA_END_EOS, DATA_END_NONE };
enum chat_format_choice { CHAT_FORMAT_AUTO, CHAT_FORMAT_GEMMA3, CHAT_FORMAT_GEMMA4 };
enum save_dtype_kind {
    SAVE_DTYPE_SOURCE,
    SAVE_DTYPE_F32,
    SAVE_DTYPE_BF16,
    SAVE_DTYPE_F16
};
enum rounding_kind { ROUNDING_AUTO, ROUNDING_NEAREST, ROUNDING_STOCHASTIC };
enum lora_base { LORA_BASE_FILE, LORA_BASE_F32, LORA_BASE_BF16 };
enum optimizer_kind { OPTIMIZER_ADAMW };
enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE };
enum recompute_kind { RECOMPUTE_NONE, RECOMPUTE_LAYER, RECOMPUTE_AUTO };

struct string_list {
    const char *const *items; /* [n], owned by the settings' arena */
    int64_t n;
};

/* A list of one text, which is borrowed; it lasts as long as the block it stands in. */
#define STRING_LIST_OF(text) \
    ((struct string_list){.items = (const char *const[]){text}, .n = 1})

/* Tensors that are trained with numbers of their own: an entry of train.param_groups. */
struct param_group {
    const char *match;   /* pattern of tensor names */
    double lr;           /* NaN: that of train.optimizer */
    double weight_decay; /* NaN: that of train.optimizer */
};

struct param_group_list {
    const struct param_group *items; /* [n], owned by the settings' arena */
    int64_t n;                       /* at most SETTINGS_MAX_GROUPS */
};

enum { SETTINGS_MAX_GROUPS = 64 };

/* Fields in the order of settings.def, where each is explained. */
struct settings {
    const char *model;
    const char *run;
    int64_t seed;
    int precision; /* enum precision; choices are int so that the table can set them */
    int engine;    /* enum engine_kind */
    int64_t threads;      /* 0 = one per processor */
    int64_t memory_limit; /* bytes */
    int init;             /* enum init_kind */
    struct {
        struct string_list train;   /* files */
        struct string_list weights; /* numbers, one per file of train, or empty */
        struct string_list eval;    /* files */
        double eval_share;
        int format;      /* enum records_format */
        int chat_format; /* enum chat_format_choice */
        const char *template_text;
        const char *response;      /* name of the field */
        struct string_list ignore; /* names of fields */
        int end;                   /* enum data_end */
        int loss_on;               /* enum records_loss_on */
        int64_t row_tokens;        /* length of a row */
        int overlong;              /* enum records_overlong */
        int64_t max_bad_rows;
        const char *cache; /* NULL: the user's cache folder */
        bool pack;         /* several examples share a row */
        bool shuffle;      /* each epoch in an order of its own */
    } data;
    struct {
        int64_t epochs;              /* 0 = only steps count */
        int64_t steps;               /* 0 = only epochs count */
        int64_t batch_rows;          /* of an optimizer step, over all ranks */
        int64_t batch_rows_per_rank; /* the same; at most one of the two is given */
        int64_t micro_rows;          /* of one pass; 0 = as memory allows */
        struct {
            int name; /* enum optimizer_kind */
            double lr, beta1, beta2, eps, weight_decay;
        } optimizer;
        struct param_group_list param_groups;
        struct {
            int kind; /* enum schedule_kind */
            int64_t warmup_steps;
            double final_lr; /* at the last step */
        } schedule;
        int rounding; /* enum rounding_kind */
        double z_loss, label_smoothing;
        double clip_norm;          /* 0 = off */
        struct string_list freeze; /* patterns of tensor names */
        int recompute;             /* enum recompute_kind */
        int64_t max_skipped;
        double outlier_z; /* 0 = off */
        int64_t outlier_window;
        int64_t norms_every; /* 0 = never */
        int save_dtype;      /* enum save_dtype_kind */
        bool save_model;
    } train;
    struct {
        int64_t every_steps; /* 0 = not by steps */
        bool at_epoch_end;
        int64_t max_rows;
        int64_t patience; /* 0 = off */
        double min_delta;
        bool save_best;
    } eval;
    struct {
        int64_t rank; /* 0 = no adapters */
        double alpha, dropout;
        struct string_list targets;
        const char *adapter; /* NULL = new ones */
        int base;            /* enum lora_base */
    } lora;
    struct {
        struct string_list prompts;
        int64_t every_steps; /* 0 = at each evaluation */
        int64_t max_tokens;
        double temperature;
    } sample;

    struct arena *arena; /* owns all strings */
};

void settings_init(struct settings *settings); /* defaults */
void settings_deinit(struct settings *settings);

/* `path` "-" is not special; the file is at most 1 MiB. */
MUST_USE bool settings_read_file(struct settings *settings, const char *path,
                                 struct error *err);

/* The same from memory; `where` names it in messages. */
MUST_USE bool settings_read_text(struct settings *settings, const char *text,
                                 size_t length, const char *where, struct error *err);

/*
 * LATHE_SECTION_KEY for each key of the table. LATHE_SECTION_... of a section but of no
 * key is refused; other LATHE_ variables are left alone.
 */
MUST_USE bool settings_read_environment(struct settings *settings, struct error *err);

/* "key=value"; the value is read as YAML, so lists and quotes work. */
MUST_USE bool settings_set(struct settings *settings, const char *assignment,
                           struct error *err);

/* The same with key and value apart; `where` begins messages ("--format"). */
MUST_USE bool settings_set_key(struct settings *settings, const char *key,
                               const char *value, const char *where, struct error *err);

/* What one key alone cannot tell: things that are missing, or do not go together. */
MUST_USE bool settings_check(const struct settings *settings, struct error *err);

/* All settings as a run file that gives the same settings again. */
void settings_print_yaml(const struct settings *settings, struct str *out);

/* Every setting with default and meaning, for a terminal. */
void settings_print_summary(struct str *out);

/* The reference page (docs/settings.md). */
void settings_print_reference(struct str *out);

#endif
