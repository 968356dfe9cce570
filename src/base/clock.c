/*
 * clock - the monotonic clock of the system.
 */
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* CLOCK_MONOTONIC: setting the system's time does not move it. 63 bits of nanoseconds
 * are 292 years. */
int64_t clock_now_ns(void)
{
    struct timespec now;
    const int rc = clock_gettime(CLOCK_MONOTONIC, &now);
    ASSERT(rc == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double clock_since_ms(int64_t start_ns)
{
    return (double)(clock_now_ns() - start_ns) / 1e6;
}

/* Field 22 of /proc/self/stat: ticks since the machine was booted. The name before it is in
 * parentheses and may hold anything, so fields are counted from its end. */
double clock_since_process_start_ms(void)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL) {
        return 0.0;
    }
    const size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *field = strrchr(text, ')');
    for (int i = 2; i < 22 && field != NULL; i++) {
        field = strchr(field + 1, ' ');
    }
    struct timespec now;
    const long ticks_per_s = sysconf(_SC_CLK_TCK);
    if (field == NULL || ticks_per_s <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        return 0.0;
    }
    const double start_ms = strtod(field, NULL) * 1000.0 / (double)ticks_per_s;
    return (double)now.tv_sec * 1000.0 + (double)now.tv_nsec / 1e6 - start_ms;
}

/* The limits are where the rounded number would show 60: 59.95 s prints as 1m 00s, not
 * as 60.0s. */
const char *clock_format_duration(char buffer[24], double seconds)
{
    if (!isfinite(seconds) || seconds >= 1e9 || seconds < 0.0) {
        snprintf(buffer, 24, "?");
    } else if (seconds < 59.95) {
        snprintf(buffer, 24, "%.1fs", seconds);
    } else if (seconds < 3599.5) {
        const int whole = (int)(seconds + 0.5);
        snprintf(buffer, 24, "%dm %02ds", whole / 60, whole % 60);
    } else {
        const int minutes = (int)(seconds / 60.0 + 0.5);
        snprintf(buffer, 24, "%dh %02dm", minutes / 60, minutes % 60);
    }
    return buffer;
}
