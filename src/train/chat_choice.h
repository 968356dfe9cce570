/*
 * chat_choice - the turn format of a model's chat rows, from the settings and the model.
 *
 *     enum chat_format format;
 *     if (!chat_choice(&source, settings->data.chat_format, &format, err)) ...
 *
 * The same for training, scoring, showing rows and generating, so that a model meets the
 * same text everywhere.
 */
#ifndef TRAIN_CHAT_CHOICE_H
#define TRAIN_CHAT_CHOICE_H

#include "base/base.h"
#include "text/chat.h"
#include "train/settings.h"

struct error;
struct tokenizer;

/*
 * choice: auto takes what the model's template writes, or else the format whose turn
 * marks its vocabulary has; neither is an error, as is a format whose marks the
 * vocabulary lacks. `path` is the model. A template that renders differently from the
 * format gets one warning in the log that names what differs.
 */
MUST_USE bool chat_choice(const char *path, const struct tokenizer *tokenizer,
                          enum chat_format_choice choice, enum chat_format *format,
                          struct error *err);

#endif
