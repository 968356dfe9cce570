/*
 * fuzz_settings - any bytes as a run file, and as --set; what is accepted is written and
 * read again with the same result (G9).
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* run.yaml of a run gives the run again: printing what was read changes nothing. */
static void print_and_read(const struct settings *settings)
{
    struct error err;
    struct str first = {0};
    struct str second = {0};
    settings_print_yaml(settings, &first);
    struct settings again;
    settings_init(&again);
    ASSERT(settings_read_text(&again, first.text, first.length, "printed", &err));
    settings_print_yaml(&again, &second);
    ASSERT(first.length == second.length);
    ASSERT(memcmp(first.text, second.text, first.length) == 0);
    settings_deinit(&again);
    str_deinit(&first);
    str_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error err = {.message = ""};
    struct settings settings;
    settings_init(&settings);
    if (settings_read_text(&settings, (const char *)bytes, length, "input", &err)) {
        print_and_read(&settings);
        const bool is_complete = settings_check(&settings, &err);
        ASSERT(is_complete || err.message[0] != '\0');
    } else {
        ASSERT(err.message[0] != '\0');
    }
    settings_deinit(&settings);

    /* The same bytes up to a NUL as an assignment. */
    char *assignment = mem_strndup((const char *)bytes, length);
    settings_init(&settings);
    if (settings_set(&settings, assignment, &err)) {
        print_and_read(&settings);
    }
    settings_deinit(&settings);
    mem_free(assignment);
    return 0;
}
