# Reads C files; prints "file:line: message" for what tools/check wants to hear about a
# file's text: its length, its functions' lengths, bodies without braces. Comments and
# strings are blanked first. With -v info=1 it prints "file lines comment-lines written-lines" and
# "function lines" rows instead, for the figures.

# The line without comments and strings; `in_comment` carries over lines.
function blanked(line,    out, i, n, c, two, quote)
{
    out = ""
    n = length(line)
    has_comment = in_comment
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
        } else if (two == "/*") {
            in_comment = has_comment = 1
            i++
        } else if (two == "//") {
            has_comment = 1
            break
        } else if (c == "\"" || c == "'") {
            quote = c
            for (i++; i <= n && substr(line, i, 1) != quote; i++) {
                if (substr(line, i, 1) == "\\") {
                    i++
                }
            }
            out = out quote quote
        } else {
            out = out c
        }
    }
    return out
}

# Called on the text from an opening parenthesis on, over lines until it closes; sets
# `after` to what follows.
function follow_parentheses(text,    i, n, c)
{
    n = length(text)
    for (i = 1; i <= n; i++) {
        c = substr(text, i, 1)
        if (c == "(") {
            depth++
        } else if (c == ")" && --depth == 0) {
            after = substr(text, i + 1)
            return 1
        }
    }
    return 0
}

function check_body()
{
    sub(/^[ \t]+/, "", after)
    if (substr(after, 1, 1) != "{" && !(is_end_of_do && after == ";")) {
        print FILENAME ":" head_line ": body without braces"
    }
}

function end_file()
{
    if (file == "") {
        return
    }
    if (info) {
        print "file", n_lines, n_comments, n_written
    } else if (n_lines > 900) {
        print file ":900: file has " n_lines " lines, at most 900"
    }
}

FNR == 1 {
    end_file()
    file = FILENAME
    in_comment = in_macro = depth = body_start = n_comments = n_written = 0
}

{
    n_lines = FNR
    code = blanked($0)
    n_written += NF > 0
    n_comments += has_comment

    # Functions, as clang-format writes them: braces alone at the left edge.
    if (code ~ /^\{/ && before ~ /\)$/) {
        body_start = FNR - 1
    } else if (code ~ /^\}/ && body_start) {
        size = FNR - body_start + 1
        if (info) {
            print "function", size
        } else if (size > 80) {
            print FILENAME ":" body_start ": function has " size " lines, at most 80"
        }
        body_start = 0
    }

    # Macros may hold what looks like a statement.
    was_in_macro = in_macro
    in_macro = (code ~ /^[ \t]*#/ || in_macro) && $0 ~ /\\$/
    if (!info && !was_in_macro && code !~ /^[ \t]*#/) {
        if (depth > 0) {
            if (follow_parentheses(code)) {
                check_body()
            }
        } else if (match(code, /^[ \t]*(\} )?(else )?(if|for|while|switch) ?\(/)) {
            is_end_of_do = code ~ /^[ \t]*\} while/
            head_line = FNR
            if (follow_parentheses(substr(code, RSTART + RLENGTH - 1))) {
                check_body()
            }
        } else if (code ~ /^[ \t]*(\} )?(else|do)([ \t]*$|[ \t]+[^ \t{])/) {
            print FILENAME ":" FNR ": body without braces"
        }
    }
    if (code !~ /^[ \t]*$/) {
        before = code
    }
}

END {
    end_file()
}
