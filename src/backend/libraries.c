/*
 * libraries - see the header. Versions are asked of the libraries that run, not of the
 * headers that the build saw.
 */
#include "backend/libraries.h"

#include <jansson.h>
#include <stdio.h>
#include <xxhash.h>
#include <yaml.h>

#ifndef LATHE_PLAIN_GEMM
#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

/* OpenBLAS picks its kernels when it is loaded; which ones tells whether an environment
 * variable holds it back. Its own description begins "OpenBLAS 0.3.21 ". */
static void name_openblas(char version[80])
{
    char number[20] = "";
    if (sscanf(openblas_get_config(), "OpenBLAS %19s", number) != 1) {
        snprintf(number, sizeof(number), "unknown version");
    }
    snprintf(version, 80, "%s, kernels for %s", number, openblas_get_corename());
}

static void name_onednn(char version[80])
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, 80, "%d.%d.%d", v->major, v->minor, v->patch);
}
#else
/* Builds for the thread sanitizer. */
static void name_openblas(char version[80])
{
    version[0] = '\0';
}

static void name_onednn(char version[80])
{
    version[0] = '\0';
}
#endif

int libraries_list(struct libraries_row rows[LIBRARIES_MAX])
{
    static const char slow[] =
        "this build multiplies matrices with plain C, many times slower";
    int n = 0;
    rows[n++] = (struct libraries_row){
        .name = "OpenBLAS", .purpose = "matrix products", .absence = slow};
    name_openblas(rows[n - 1].version);
    rows[n++] = (struct libraries_row){
        .name = "oneDNN", .purpose = "matrix products with AVX-512", .absence = slow};
    name_onednn(rows[n - 1].version);
    rows[n++] = (struct libraries_row){.name = "jansson", .purpose = "JSON"};
    snprintf(rows[n - 1].version, 80, "%s", jansson_version_str());
    rows[n++] = (struct libraries_row){.name = "libyaml", .purpose = "run files"};
    snprintf(rows[n - 1].version, 80, "%s", yaml_get_version_string());
    rows[n++] =
        (struct libraries_row){.name = "xxHash", .purpose = "the cache of tokens"};
    const unsigned number = XXH_versionNumber();
    snprintf(rows[n - 1].version, 80, "%u.%u.%u", number / 10000, number / 100 % 100,
             number % 100);
    ASSERT(n <= LIBRARIES_MAX);
    return n;
}
