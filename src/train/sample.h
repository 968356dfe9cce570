/*
 * sample - what the model answers to fixed prompts while it is trained (sample.*).
 *
 *     struct sample *sample = sample_create(engine, step, &options, err);
 *     sample_run(sample, 120, file, err);       into the log, and as lines of JSON
 *     sample_destroy(sample);
 *
 * The answers come from the step's own parameters, as they are: nothing is copied but what
 * the step keeps in its file. With chat data a prompt is a user's turn, else plain text.
 */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include <stdio.h>

#include "text/chat.h"
#include "train/generate.h"

struct sample;
struct settings;
struct step;

struct sample_options {
    const struct settings *settings; /* borrowed: sample.*, data.format, seed */
    const struct model_config *config;
    const struct params *params;
    const struct tokenizer *tokenizer;
    enum chat_format chat_format; /* of data.format chat */
};

/* A prompt that is too long for the model, or that no turn can hold, is an error that
 * names it: told before a run begins. */
MUST_USE bool sample_check(const struct sample_options *options, struct error *err);

/* The same check, and what is needed to answer. */
MUST_USE struct sample *sample_create(struct engine *engine, struct step *step,
                                      const struct sample_options *options,
                                      struct error *err);
void sample_destroy(struct sample *sample); /* takes NULL; before step and engine */

/*
 * Answers all prompts. A line {"step": .., "prompt": .., "text": ..} for each goes to
 * `file`. A signal ends it, as interrupt_check tells; what was answered before is kept. A
 * model whose output is not finite gives a warning in place of answers.
 */
MUST_USE bool sample_run(struct sample *sample, int64_t step_number, FILE *file,
                         struct error *err);

#endif
