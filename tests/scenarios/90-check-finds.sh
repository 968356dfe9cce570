#!/usr/bin/env bash
# tools/check must be able to fail: a small project with one fault of each kind, and the
# finding that each has to give.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
cd "$project" || exit 1

mkdir -p src/base src/graph src/app src/backend/cpu tests/base tools docs obj/src/base
cp "$root/src/LAYERS" src/
cp "$root/.clang-format" .
printf '# none\nsrc/gone.c: is not there\n' >tools/untested.txt

comment='/* what this is */'
guard() { printf '%s\n#ifndef %s\n#define %s\n%s\n#endif\n' "$comment" "$1" "$1" "$2"; }
guard BASE_GOOD_H 'int good_value(void);' >src/base/good.h
guard BASE_LONELY_H 'struct lonely { size_t n; };' >src/base/lonely.h
guard WRONG_H '' >src/base/misnamed.h
guard BACKEND_CPU_INNER_H '' >src/backend/cpu/inner.h
printf '%s\n#include "graph/none.h"\n#include "base/good.h"\nint other_name(void)\n{\n    return 1;\n}\n' \
    "$comment" >src/base/good.c
printf '%s\n#include "backend/cpu/inner.h"\n' "$comment" >src/app/main.c
printf 'int twice;\n' >src/graph/good.c
{
    printf '%s\nint good_value(void)\n{\n' "$comment"
    printf '    if (1)\n        return 2;\n'
    printf '    for (int i = 0;\n         i < 3; i++)\n        ;\n'
    printf '    do {\n    } while (0);\n'
    printf '    else\n        x();\n'
    printf '    /* if (1) x(); */\n    puts("if (1)");\n'
    for ((i = 0; i < 80; i++)); do echo '    x();'; done
    printf '    return  3;\n}\n'
} >tests/base/test_long.c
{ echo "$comment"; for ((i = 0; i < 901; i++)); do echo; done; } >tests/base/test_file.c
printf '/* TO%s: later, see /wo%s/x */\n' DO rk >src/base/words.c
printf 'See `src/base/none.c`, `src/base/good.c`, [x](nowhere.md).\n' >README.md
printf '%s\nint other_name(void);\nint other_name(void)\n{\n    return 1;\n}\n' "$comment" |
    ${CC:-cc} -x c -c -o obj/src/base/good.o -

found=$("$root/tools/check" obj)
status=$?

n_failed=0
expect()
{
    if printf '%s\n' "$found" | grep -qF "$1"; then
        echo "ok found: $1"
    else
        echo "not ok found: $1"
        n_failed=$((n_failed + 1))
    fi
}

if [ "$status" = 1 ]; then echo "ok status is 1"; else echo "not ok status is $status"; n_failed=1; fi
expect 'src/base/good.c:2: layer base may not include graph'
expect 'src/app/main.c:2: only backend may include backend/cpu/inner.h'
expect 'the file name is taken by'
expect 'src/base/good.c:1: exports other_name, expected good_...'
expect 'src/base/good.c:1: no test_good.c'
expect 'tools/untested.txt:1: no file src/gone.c'
expect 'src/base/lonely.h:1: does not compile alone'
expect 'src/base/misnamed.h:1: include guard is not BASE_MISNAMED_H'
expect 'src/graph/good.c:1: no opening comment'
expect 'tests/base/test_long.c:4: body without braces'
expect 'tests/base/test_long.c:6: body without braces'
expect 'tests/base/test_long.c:11: body without braces'
expect 'tests/base/test_long.c:2: function has'
expect 'tests/base/test_file.c:900: file has 902 lines'
expect 'src/base/words.c:1: unfinished work'
expect 'src/base/words.c:1: path of a machine'
expect 'README.md:1: no such path: src/base/none.c'
expect 'README.md:1: link leads nowhere: nowhere.md'
if command -v clang-format >/dev/null; then
    expect 'tests/base/test_long.c:6: not formatted'
fi

# And it must not cry without cause.
n_braces=$(printf '%s\n' "$found" | grep -c 'body without braces')
if [ "$n_braces" = 3 ]; then
    echo "ok three bodies without braces"
else
    echo "not ok $n_braces bodies without braces, expected 3"
    n_failed=$((n_failed + 1))
fi
[ "$n_failed" = 0 ] || printf '%s\n' "$found"
[ "$n_failed" = 0 ]
