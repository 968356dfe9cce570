/*
 * bench_print - what `lathe bench` has measured, as lines for people or as one line of JSON
 * for programs.
 */
#ifndef APP_BENCH_PRINT_H
#define APP_BENCH_PRINT_H

#include "train/bench_generate.h"
#include "train/bench_step.h"

struct str;

void bench_print_step(const struct bench_step_wish *wish,
                      const struct bench_step_result *result, struct str *out);
void bench_print_step_json(const struct bench_step_wish *wish,
                           const struct bench_step_result *result, struct str *out);

void bench_print_generate(const struct bench_generate_wish *wish,
                          const struct bench_generate_result *result, struct str *out);
void bench_print_generate_json(const struct bench_generate_wish *wish,
                               const struct bench_generate_result *result,
                               struct str *out);

#endif
