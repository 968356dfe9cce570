/*
 * profile - where the time of the CPU engine's programs went, as a table for people.
 *
 * Counted per node while the engine's `profiles` is set; times of a program go when it
 * is destroyed.
 */
#ifndef BACKEND_CPU_PROFILE_H
#define BACKEND_CPU_PROFILE_H

#include "backend/dispatch.h"

void profile_print(const struct engine *engine, struct str *out);
int profile_ops(const struct engine *engine, struct backend_profile_row *rows,
                int capacity);
void profile_reset(struct engine *engine);

#endif
