/*
 * Templates of models: where they are found, and what is said of those that differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/chat_template.h"

/* Short templates that treat conversations as the published ones do. */
static const char gemma3[] =
    "{{ bos_token }}{# a comment about <|im_start|> of three words #}\n"
    "{%- if messages[0]['role'] == 'system' -%}\n"
    "{%- set prefix = messages[0]['content'] + '\\n\\n' -%}{%- endif -%}\n"
    "{%- for message in messages -%}\n"
    "{{ raise_exception(\"Roles must alternate here\") }}\n"
    "{{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else \"\") }}\n"
    "{{ message['content'] | trim }}{{ '<end_of_turn>\\n' }}{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}";
static const char gemma4[] =
    "{%- macro strip(text) -%}{%- for part in text.split('<channel|>') -%}\n"
    "{{- part.split('<|channel>')[0] | trim -}}{%- endfor -%}{%- endmacro -%}\n"
    "{%- for m in messages -%}{{ '<|turn>' + role + '\\n' }}{{ strip(m['content']) }}\n"
    "{{ '<|tool_call>call:' + name + '{description:<|\"|>' }}<turn|>\n{%- endfor -%}";

static void assert_difference(const char *text, enum chat_format format,
                              const char *wanted)
{
    struct str difference = {0};
    const bool is_known = chat_template_is_known(text, format, &difference);
    assert_string_equal(str_text(&difference), wanted);
    assert_int_equal(is_known, wanted[0] == '\0');
    str_deinit(&difference);
}

static void known_templates(void **state)
{
    (void)state;
    enum chat_format format = CHAT_GEMMA4;
    assert_true(chat_template_format(gemma3, &format));
    assert_int_equal(format, CHAT_GEMMA3);
    assert_true(chat_template_format(gemma4, &format));
    assert_int_equal(format, CHAT_GEMMA4);
    assert_false(chat_template_format("<|im_start|>", &format));
    assert_difference(gemma3, CHAT_GEMMA3, "");
    assert_difference(gemma4, CHAT_GEMMA4, "");
}

/* `from` replaced by `to`, everywhere. */
static void assert_changed(const char *text, const char *from, const char *to,
                           enum chat_format format, const char *wanted)
{
    struct str changed = {0};
    const char *found;
    assert_non_null(strstr(text, from));
    while ((found = strstr(text, from)) != NULL) {
        str_add_bytes(&changed, text, (size_t)(found - text));
        str_add(&changed, to);
        text = found + strlen(from);
    }
    str_add(&changed, text);
    assert_difference(changed.text, format, wanted);
    str_deinit(&changed);
}

static void differences_are_named(void **state)
{
    (void)state;
    assert_difference("{% for m in messages %}{{ '<|im_start|>' + m['role'] }}"
                      "<|im_end|>{% endfor %}",
                      CHAT_GEMMA3,
                      "has no <start_of_turn>; has no <end_of_turn>; has <|im_start|>; "
                      "has <|im_end|>; puts no blank line behind a system message; "
                      "keeps white space around messages");
    assert_changed(gemma3, " | trim", "", CHAT_GEMMA3,
                   "keeps white space around messages");
    assert_changed(gemma3, "'\\n\\n'", "' '", CHAT_GEMMA3,
                   "puts no blank line behind a system message");
    assert_changed(gemma3, "'\\n\\n'", "raise_exception('System role not supported')",
                   CHAT_GEMMA3, "refuses system messages");
    assert_changed(gemma3, "{{ bos_token }}", "You are a helpful assistant.",
                   CHAT_GEMMA3, "adds the text \"You are a helpful assistant.\"");
    assert_changed(gemma3, "{{ bos_token }}",
                   "{% set x = 'Don\\'t answer questions that nobody has asked you' %}",
                   CHAT_GEMMA3,
                   "adds the text \"Don\\'t answer questions that nobody has ...\"");
    assert_changed(gemma4, "<|channel>", "", CHAT_GEMMA4, "");
    assert_changed(gemma4, "<channel|>", "", CHAT_GEMMA4,
                   "keeps the thoughts of model turns");
    assert_changed(gemma4, "{%- endfor -%}{%- endmacro -%}",
                   "{{ '<|channel>thought\\n<channel|>' }}{%- endmacro -%}",
                   CHAT_GEMMA4, "opens answers with an empty thought");
}

/* Templates come from outside: tags and literals may never end. */
static void broken_templates(void **state)
{
    (void)state;
    static const char *const texts[] = {"",   "{",    "{{",     "{%",
                                        "{#", "{{ '", "{{ '\\", "<",
                                        "<a", "}}",   "{% \"",  "{{ {{ '<a>"};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct str difference = {0};
        assert_false(chat_template_is_known(texts[i], CHAT_GEMMA3, &difference));
        str_deinit(&difference);
    }
}

/* --- files ------------------------------------------------------------------------ */

static void write_file(const char *folder, const char *name, const char *text)
{
    struct error err = {.message = ""};
    char *path = file_join(folder, name);
    if (!file_write_atomic(path, text, strlen(text), &err)) {
        fail_msg("%s", err.message);
    }
    mem_free(path);
}

static void assert_read(const char *folder, const char *wanted)
{
    struct str text = {0};
    struct error err = {.message = ""};
    if (!chat_template_read(folder, &text, &err)) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(str_text(&text), wanted);
    str_deinit(&text);
}

/* Each file that is added goes before those that were there. */
static void files_of_a_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/lathe-template-XXXXXX";
    struct str text = {0};
    struct error err = {.message = ""};
    assert_non_null(mkdtemp(folder));
    assert_read(folder, "");
    write_file(folder, "tokenizer_config.json",
               "{\"model_max_length\": 1000000000000000019884624838656, "
               "\"chat_template\": [{\"name\": \"tools\", \"template\": \"t\"}, "
               "{\"name\": \"default\", \"template\": \"in \\u0063onfig\"}]}");
    assert_read(folder, "in config");
    write_file(folder, "chat_template.json", "{\"chat_template\": \"in json\"}");
    assert_read(folder, "in json");
    write_file(folder, "chat_template.jinja", "in jinja");
    assert_read(folder, "in jinja");
    write_file(folder, "chat_template.jinja", "");
    write_file(folder, "chat_template.json", "{\"chat_template\": ");
    assert_false(chat_template_read(folder, &text, &err));
    assert_non_null(strstr(err.message, "chat_template.json:1:"));
    assert_true(file_remove_tree(folder, &err));
    assert_false(chat_template_read(folder, &text, &err));
    str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_templates),
        cmocka_unit_test(differences_are_named),
        cmocka_unit_test(broken_templates),
        cmocka_unit_test(files_of_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
