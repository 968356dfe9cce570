/*
 * native - which tables of inner loops this processor can run.
 *
 * Tables exist for the sets that the build compiled: on x86-64 all three, elsewhere the
 * plain one.
 */
#include "backend/cpu/native.h"

extern const struct native native_plain;
#if defined(__x86_64__)
extern const struct native native_avx2;
extern const struct native native_avx512;
#endif

/* From the lowest to the highest: native_find relies on it. A set counts only when all
 * the extensions that its flags allow are there (F16C, which clang 14 cannot ask for,
 * comes with every processor that has AVX2). */
int native_list(const struct native *sets[3])
{
    int n = 0;
    sets[n++] = &native_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sets[n++] = &native_avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            sets[n++] = &native_avx512;
        }
    }
#endif
    return n;
}

/* `highest` may be a set that this machine lacks: then the best below it. */
const struct native *native_find(enum backend_isa highest)
{
    const struct native *sets[3];
    int n = native_list(sets);
    while (n > 1 && sets[n - 1]->isa > highest) {
        n--;
    }
    return sets[n - 1];
}
