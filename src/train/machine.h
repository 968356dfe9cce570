/*
 * machine - what was measured of this machine, kept between runs.
 *
 * The peak of matrix products is measured by `lathe doctor`, not by every run, and kept
 * in machine.json of the user's cache folder. It belongs to a processor model, a number
 * of threads, an instruction set and a provider of matrix products: all of that is in
 * the key, so that another machine with the same home folder never gets a wrong figure.
 *
 *     double peak = machine_peak_gflops(backend_describe(engine));
 *     metrics.mfu = peak > 0.0 ? flops / (seconds * peak * 1e9) : NAN;
 */
#ifndef TRAIN_MACHINE_H
#define TRAIN_MACHINE_H

#include "base/base.h"

struct error;

/* Best f32 GFLOP/s measured here for an engine of this description (backend_describe),
 * or 0.0 when none was: the figure is optional, so a missing or damaged file is not an
 * error. */
double machine_peak_gflops(const char *engine);

/* Keeps a figure, unless a larger one is there for the same processor and engine. */
MUST_USE bool machine_store_peak(const char *engine, double gflops, struct error *err);

/* "AMD EPYC 7763 64-Core Processor", or "unknown processor". Returns `buffer`. */
const char *machine_processor(char buffer[100]);

/* "avx2 fma f16c avx512f": the extensions that kernels and libraries care about, of those
 * that the system names; "" where it names none. Returns `buffer`. */
const char *machine_features(char buffer[200]);

/* Gigabytes that n_threads (0: all) read and write a second, measured now (a moment), or
 * 0.0 with an error. */
double machine_measure_bandwidth(int n_threads, struct error *err);

/* The same of reading alone, as a token's pass over the weights does. */
double machine_measure_reading(int n_threads, struct error *err);

#endif
