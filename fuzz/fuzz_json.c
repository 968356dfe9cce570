/*
 * fuzz_json - any bytes as JSON text, then every getter on what came out (G9).
 */
#include "base/error.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error err;
    json_t *value = json_parse((const char *)bytes, length, "input", &err);
    if (value == NULL) {
        return 0;
    }
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        int64_t integer;
        double number;
        bool truth;
        const void *found = json_need_object(value, key, "input", &err);
        found = found != NULL ? found : json_need_array(value, key, "input", &err);
        found = found != NULL ? found : json_need_string(value, key, "input", &err);
        const bool is_scalar =
            json_need_integer(value, key, "input", -5, 5, &integer, &err) ||
            json_need_number(value, key, "input", &number, &err) ||
            json_need_bool(value, key, "input", &truth, &err);
        ASSERT(found == NULL || !is_scalar); /* one kind at most */
    }
    json_decref(value);
    return 0;
}
