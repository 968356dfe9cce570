/*
 * hold_out - part of the training rows, set aside for the held-out loss.
 *
 * Chosen by the seed from each file alike. A row that became several examples stays
 * together, or its halves would be learned and tested.
 */
#ifndef DATA_HOLD_OUT_H
#define DATA_HOLD_OUT_H

#include "base/base.h"

struct records;

/*
 * Moves a share of the rows of each file, one at least where it has two, from *records to
 * *held (uninitialised), which shares its memory and is to be deinited too. At most
 * max_rows in all (0: no limit), spread over the files.
 */
void hold_out_split(struct records *records, double share, uint64_t seed,
                    int64_t max_rows, struct records *held);

/* How many of max_rows (0: no limit, gives 0) fall to file i of n; the first ones get
 * one more where it does not come out even. -1: none. */
int64_t hold_out_limit(int64_t max_rows, int32_t i, int32_t n);

#endif
