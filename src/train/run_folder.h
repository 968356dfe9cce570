/*
 * run_folder - the folder of a run: run.yaml, log.txt, metrics.jsonl, samples.jsonl,
 * model/, best/.
 */
#ifndef TRAIN_RUN_FOLDER_H
#define TRAIN_RUN_FOLDER_H

#include <stdio.h>

#include "base/base.h"

struct error;
struct settings;

struct run_folder {
    char *path;    /* owned copy */
    FILE *log;     /* every line of the log from now on goes there too */
    FILE *metrics; /* one JSON object per step */
    FILE *samples; /* one JSON object per answer; NULL: no sample.prompts */
    /* Before there is a folder: log lines in memory. */
    FILE *early_log;
    char *early_text;
    size_t early_length;
};

/* Keeps the log's lines from now on for the log file of the folder, which is made only when
 * everything else is in order. *folder is zeroed. */
void run_folder_hold_log(struct run_folder *folder);

/*
 * Makes the folder with run.yaml in it. A folder that is there already is an error with
 * the way on, unless `overwrites`: then it is removed first, if it is empty or a run
 * (it holds run.yaml); anything else is never touched.
 */
MUST_USE bool run_folder_create(struct run_folder *folder,
                                const struct settings *settings, bool overwrites,
                                struct error *err);

/* False if run_folder_create would refuse, or could not write there; says why. Changes
 * nothing. A run that holds the model or the data of this one is never replaced. */
MUST_USE bool run_folder_check(const struct settings *settings, bool overwrites,
                               struct error *err);

/* ERROR_USAGE if `path`, which a command wants to write (`option` names it), is a file that
 * belongs to `run`, a run folder or its metrics file, whatever way it is written and
 * though it may not be there yet. */
MUST_USE bool run_folder_check_output(const char *run, const char *option,
                                      const char *path, struct error *err);

/*
 * Moves `from` to `to`, names in the folder; a folder `to` that is there is replaced: at
 * every moment a whole one stands under the name (or, where the file system cannot
 * exchange names, under NAME.old for an instant), and the former one is removed.
 */
MUST_USE bool run_folder_publish(const struct run_folder *folder, const char *from,
                                 const char *to, struct error *err);

/* The error that ends the run, into the log file: on the terminal the program prints it. */
void run_folder_note_error(const struct run_folder *folder, const struct error *err);

/* Takes a zeroed one, and one whose log was held for a folder that never came. */
void run_folder_close(struct run_folder *folder);

#endif
