/*
 * manual_completion - what the Tab key offers, in bash and in zsh.
 *
 * Both scripts are a table and a few lines that look things up in it: the options of each
 * command, what an option takes, and the settings with their choices. bash splits words
 * at "=", unless COMP_WORDBREAKS says otherwise, so its script puts them together first.
 */
#include <ctype.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/manual.h"
#include "base/error.h"
#include "base/str.h"
#include "train/settings_table.h"

/* "a | b" or "a|b" as "a b". */
static void add_words(struct str *out, const char *choices)
{
    for (const char *c = choices; *c != '\0'; c++) {
        if (*c == '|') {
            str_add_char(out, ' ');
        } else if (*c != ' ') {
            str_add_char(out, *c);
        }
    }
}

/* The value's name lists the words themselves: "bf16|f32". Capitals are a description. */
static bool is_choice(const char *value)
{
    bool has_bar = false;
    for (const char *c = value; *c != '\0'; c++) {
        if (isupper((unsigned char)*c)) {
            return false;
        }
        has_bar = has_bar || *c == '|';
    }
    return has_bar;
}

/* What an option takes, as a word of the scripts: "" nothing, "setting", "choice", "path"
 * or "text". */
static const char *kind_of(const struct argument_option *option)
{
    if (option->value == NULL) {
        return "";
    }
    if (strcmp(option->value, "KEY=VALUE") == 0) {
        return "setting";
    }
    if (is_choice(option->value)) {
        return "choice";
    }
    /* RUN.yaml, FILE.jsonl, DIR, PATH... */
    static const char *const paths[] = {"FILE*", "DIR*",   "PATH*", "*.*",
                                        "RUN*",  "MODEL*", "TO*",   "FOLDER*"};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        if (str_matches(paths[i], option->value)) {
            return "path";
        }
    }
    return "text";
}

/* A command_describe_fn: lines of the shell's `case` for one command. */
static void add_options(void *context, const struct command *command,
                        const struct argument_option *options)
{
    struct str *out = context;
    str_printf(out, "    %s) echo \"", command->name);
    for (const struct argument_option *option = options; option->name != NULL;
         option++) {
        str_printf(out, "%s%s", option == options ? "" : " ", option->name);
    }
    str_add(out, "\" ;;\n");
}

/* The same for what the options take: "COMMAND OPTION) echo KIND WORDS". */
static void add_values(void *context, const struct command *command,
                       const struct argument_option *options)
{
    struct str *out = context;
    for (const struct argument_option *option = options; option->name != NULL;
         option++) {
        const char *kind = kind_of(option);
        if (kind[0] == '\0') {
            continue;
        }
        str_printf(out, "    \"%s %s\") echo \"%s", command->name, option->name, kind);
        if (strcmp(kind, "choice") == 0) {
            str_add_char(out, ' ');
            add_words(out, option->value);
        }
        str_add(out, "\" ;;\n");
    }
}

/* Functions that both shells understand: _lathe_options COMMAND, _lathe_value COMMAND
 * OPTION, _lathe_choices KEY; and the words _lathe_commands, _lathe_keys. */
static bool add_tables(struct str *out, struct error *err)
{
    str_add(out, "_lathe_commands=\"");
    for (const struct command *c = command_table(); c->name != NULL; c++) {
        str_printf(out, "%s%s", c == command_table() ? "" : " ", c->name);
    }
    str_add(out, "\"\n_lathe_options() {\n    case \"$1\" in\n");
    for (const struct command *c = command_table(); c->name != NULL; c++) {
        if (!command_describe(c, add_options, out, err)) {
            return false;
        }
    }
    str_add(out, "    esac\n}\n_lathe_value() {\n    case \"$1 $2\" in\n");
    for (const struct command *c = command_table(); c->name != NULL; c++) {
        if (!command_describe(c, add_values, out, err)) {
            return false;
        }
    }
    str_add(out, "    esac\n}\n_lathe_keys=\"");
    size_t n = 0;
    const struct setting *table = settings_table(&n);
    for (size_t i = 0; i < n; i++) {
        str_printf(out, "%s%s", i == 0 ? "" : " ", table[i].key);
    }
    str_add(out, "\"\n_lathe_choices() {\n    case \"$1\" in\n");
    for (size_t i = 0; i < n; i++) {
        if (table[i].kind == SETTING_CHOICE || table[i].kind == SETTING_SWITCH) {
            str_printf(out, "    %s) echo \"", table[i].key);
            add_words(out, table[i].kind == SETTING_SWITCH ? "true | false"
                                                           : table[i].choices);
            str_add(out, "\" ;;\n");
        }
    }
    str_add(out, "    esac\n}\n");
    return true;
}

/* Where bash has split "--set a.b=c" into several words, they are put together again:
 * `line` holds the words before the one at the cursor, `word` that one; `kept` is its
 * part up to the last "=", which bash does not want to see in the replies. */
static const char bash_end[] =
    "_lathe() {\n"
    "    local line=() word=\"\" joins=no i part kept=\"\" value kind words\n"
    "    for ((i = 1; i <= COMP_CWORD; i++)); do\n"
    "        part=${COMP_WORDS[i]}\n"
    "        if [[ $part == \"=\" || $joins == yes ]]; then\n"
    "            word+=$part\n"
    "            joins=no\n"
    "            [[ $part == \"=\" ]] && joins=yes\n"
    "        else\n"
    "            ((i > 1)) && line+=(\"$word\")\n"
    "            word=$part\n"
    "        fi\n"
    "    done\n"
    "    COMPREPLY=()\n"
    "    [[ $COMP_WORDBREAKS == *=* && $word == *=* ]] && kept=${word%=*}=\n"
    "    if ((${#line[@]} == 0)); then\n"
    "        COMPREPLY=($(compgen -W \"$_lathe_commands --version\" -- \"$word\"))\n"
    "        return\n"
    "    fi\n"
    "    local command=${line[0]} before=${line[${#line[@]} - 1]} start=\"\"\n"
    "    if [[ $word == --*=* ]]; then\n"
    "        before=${word%%=*}\n"
    "        start=$before=\n"
    "        word=${word#*=}\n"
    "    fi\n"
    "    value=$(_lathe_value \"$command\" \"$before\")\n"
    "    kind=${value%% *}\n"
    "    words=\"\"\n"
    "    case $kind in\n"
    "    setting)\n"
    "        if [[ $word == *=* ]]; then\n"
    "            start+=${word%%=*}=\n"
    "            words=$(_lathe_choices \"${word%%=*}\")\n"
    "            word=${word#*=}\n"
    "        else\n"
    "            words=${_lathe_keys// /= }=\n"
    "            compopt -o nospace 2>/dev/null\n"
    "        fi\n"
    "        ;;\n"
    "    choice) words=${value#* } ;;\n"
    "    text) return ;;\n"
    "    esac\n"
    "    if [[ -z $kind && $word == -* ]]; then\n"
    "        words=$(_lathe_options \"$command\")\n"
    "    elif [[ -z $kind && $command == help ]]; then\n"
    "        words=$_lathe_commands\n"
    "    elif [[ -z $words && ($kind == path || -z $kind) ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "        return\n"
    "    fi\n"
    "    COMPREPLY=($(compgen -P \"$start\" -W \"$words\" -- \"$word\"))\n"
    "    COMPREPLY=(\"${COMPREPLY[@]#\"$kept\"}\")\n"
    "}\n"
    "complete -F _lathe lathe\n";

/* zsh does not split at "=", and "${=x}" makes words of a text. */
static const char zsh_end[] =
    "_lathe() {\n"
    "    local word=$words[CURRENT] before=$words[CURRENT-1] command=$words[2]\n"
    "    local value kind\n"
    "    if ((CURRENT == 2)); then\n"
    "        compadd -- ${=_lathe_commands} --version\n"
    "        return\n"
    "    fi\n"
    "    value=$(_lathe_value $command $before)\n"
    "    kind=${value%% *}\n"
    "    case $kind in\n"
    "    setting)\n"
    "        if [[ $word == *=* ]]; then\n"
    "            compset -P '*='\n"
    "            compadd -- $(_lathe_choices ${word%%=*})\n"
    "        else\n"
    "            compadd -S = -- ${=_lathe_keys}\n"
    "        fi\n"
    "        return\n"
    "        ;;\n"
    "    choice)\n"
    "        compadd -- ${=${value#* }}\n"
    "        return\n"
    "        ;;\n"
    "    text) return ;;\n"
    "    esac\n"
    "    if [[ -z $kind && $word == -* ]]; then\n"
    "        compadd -- $(_lathe_options $command)\n"
    "    elif [[ -z $kind && $command == help ]]; then\n"
    "        compadd -- ${=_lathe_commands}\n"
    "    else\n"
    "        _files\n"
    "    fi\n"
    "}\n"
    "_lathe \"$@\"\n";

bool manual_print_completion(const char *shell, struct str *out, struct error *err)
{
    const bool is_bash = strcmp(shell, "bash") == 0;
    if (!is_bash && strcmp(shell, "zsh") != 0) {
        return error_set(err, ERROR_USAGE, "no completion for %s: expected bash or zsh",
                         shell);
    }
    str_add(out, is_bash ? "# Completion of lathe for bash, made by `lathe help "
                           "--completion bash`.\n"
                         : "#compdef lathe\n");
    if (!add_tables(out, err)) {
        return false;
    }
    str_add(out, is_bash ? bash_end : zsh_end);
    return true;
}
