/*
 * executor - runs a program: every node for all local ranks before the next.
 */
#ifndef BACKEND_CPU_EXECUTOR_H
#define BACKEND_CPU_EXECUTOR_H

#include "backend/dispatch.h"

MUST_USE bool executor_run(struct program *program, struct buffer *const *arguments,
                           struct buffer *const *outputs, struct error *err);

#endif
