/*
 * doctor - what `lathe doctor` finds out about this machine: facts, measurements, the
 * self-test, and what is wrong with them.
 *
 *     struct doctor doctor;
 *     doctor_examine(&doctor, 1.0);
 *     doctor_print(&doctor, &text);
 *     doctor_deinit(&doctor);
 */
#ifndef APP_DOCTOR_H
#define APP_DOCTOR_H

#include "backend/libraries.h"
#include "base/str.h"

enum { DOCTOR_MAX_KERNELS = 160, DOCTOR_MAX_NOTES = 16 };

/* One result of the self-test (backend/selftest.h). */
struct doctor_kernel {
    const char *kernel;
    char engine[40];
    double error, bound;
    bool is_fine;
};

struct doctor {
    /* the processor */
    char processor[100];
    char features[200]; /* "avx2 fma ...", those that matter */
    int n_processors;   /* of the machine */
    int n_usable;       /* this process may use */
    double cpu_limit;   /* processors that a container grants; 0: no limit */

    /* memory, in bytes */
    size_t machine_bytes;   /* 0: not known */
    size_t limit_bytes;     /* what this process may use; SIZE_MAX: no limit known */
    size_t available_bytes; /* now; 0: not known */
    double gbytes_per_s;    /* measured; 0: could not be */

    /* matrix products */
    char engine[100];     /* "cpu, 2 threads, avx2, openblas"; "": none could be made */
    double gflops;        /* measured; 0: could not be */
    double former_gflops; /* kept from another time; 0: none */
    bool is_kept;         /* the peak is in the cache folder now */

    double disk_bytes; /* free in the current folder; below 0: not known */
    struct libraries_row libraries[LIBRARIES_MAX];
    int n_libraries;

    struct doctor_kernel kernels[DOCTOR_MAX_KERNELS];
    int n_kernels, n_wrong_kernels;

    /* One sentence each, owned. Problems make the command fail; warnings do not. */
    char *problems[DOCTOR_MAX_NOTES];
    char *warnings[DOCTOR_MAX_NOTES];
    int n_problems, n_warnings;
};

/* Fills *doctor: facts, about five seconds of measuring, the self-test. What cannot be
 * found out is a problem in the list. bound_scale goes to selftest_run: 1.0, but in
 * tests. */
void doctor_examine(struct doctor *doctor, double bound_scale);
void doctor_deinit(struct doctor *doctor);

/* The report for people, and as one JSON object. */
void doctor_print(const struct doctor *doctor, struct str *out);
void doctor_print_json(const struct doctor *doctor, struct str *out);

#endif
