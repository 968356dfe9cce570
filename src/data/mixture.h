/*
 * mixture - which examples an epoch takes, where files have weights.
 *
 * A weight of 2 takes each example of a file twice, 0.5 takes half of them: the next half
 * each epoch, in an order drawn by the seed, so that all are used equally often in the
 * long run. A pure function of data, seed and epoch.
 */
#ifndef DATA_MIXTURE_H
#define DATA_MIXTURE_H

#include "base/base.h"

struct records;

/* The examples of this epoch, *n of them, in the order of the files; freed with
 * mem_free. NULL where all are taken once (*n = records->n). Never empty where there is
 * an example. */
int32_t *mixture_take(const struct records *records, uint64_t seed, int64_t epoch,
                      int64_t *n);

#endif
