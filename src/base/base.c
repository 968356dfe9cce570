/*
 * base - how a failed assertion ends the process.
 */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

/* Set once at start, only for the message below; -1 while there is one process. */
static int assert_rank = -1;

void base_set_rank(int rank)
{
    assert_rank = rank;
}

/* The line goes through the fatal handler, so that a program with its own log has it
 * there too; abort leaves a core with the caller's frames in it. */
void base_assert_failed(const char *expression, const char *file, int line)
{
    char message[512];
    char rank[32] = "";
    if (assert_rank >= 0) {
        snprintf(rank, sizeof(rank), " (rank %d)", assert_rank);
    }
    snprintf(message, sizeof(message), "%s:%d: assertion failed: %s%s", file, line,
             expression, rank);
    mem_report_fatal(message);
    abort();
}
