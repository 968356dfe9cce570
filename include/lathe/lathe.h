/*
 * lathe - fine-tuning of Gemma models as a library. This header is all of it:
 *
 *     common.h   version, errors, messages
 *     run.h      settings and training
 *     tokens.h   tokenizers and conversations
 *     model.h    models: facts, tensors, scores, answers, writing
 *
 * Compile with `pkg-config --cflags --libs lathe`. examples/finetune.c shows all parts.
 */
#ifndef LATHE_LATHE_H
#define LATHE_LATHE_H

#include "lathe/common.h"
#include "lathe/model.h"
#include "lathe/run.h"
#include "lathe/tokens.h"

#endif
