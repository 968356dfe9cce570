#!/usr/bin/env bash
# make install: an installed copy is all that a program needs, and all of it goes again.
. "$(dirname "$0")/../support/scenario.sh"

out=$(dirname "$LATHE")
prefix=$work/prefix
header=$prefix/include/lathe
flags=-Wall
grep -q fsanitize=address "$out/flags" && flags="-Wall -fsanitize=address,undefined"
compiler=$(sed 's/ -std=.*//' "$out/flags")

check "install" "$root/tools/install" "$out" "$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
version=$("$prefix/bin/lathe" --version)
check "pkg-config knows the version" [ "$version" = "lathe $(pkg-config --modversion lathe)" ]
check "the library has a SONAME" \
    bash -c "readelf -d '$prefix/lib/liblathe.so' | grep -q 'SONAME.*\[liblathe\.so\.[0-9]*\]'"

# What the headers declare is what is visible: no more, no less, and under 60 functions.
cat "$header"/*.h | tr '\n' ' ' | grep -oE 'LATHE_API [^;]*\(' |
    grep -oE 'lathe_[a-z0-9_]+\($|lathe_[a-z0-9_]+\(' | tr -d '(' | sort -u >declared.txt
# Sanitizers add names of their own, which begin with two underscores.
for kind in "-D $prefix/lib/liblathe.so" "-g $prefix/lib/liblathe.a"; do
    # shellcheck disable=SC2086  (two words on purpose)
    nm --defined-only $kind | awk 'NF == 3 && $3 !~ /^__/ { print $3 }' | sort -u >visible.txt
    check "only the interface is visible in ${kind##*/}" diff declared.txt visible.txt
done
n=$(wc -l <declared.txt)
check "the interface is small ($n functions)" [ "$n" -gt 20 -a "$n" -lt 60 ]

# Each header compiles alone, also as C++.
for path in "$header"/*.h; do
    name=lathe/$(basename "$path")
    check "$name alone" bash -c \
        "echo '#include <$name>' | $compiler -I'$prefix/include' -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c -"
    if command -v g++ >/dev/null; then
        check "$name in C++" bash -c \
            "echo '#include <$name>' | g++ -I'$prefix/include' -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ -"
    fi
done

# The example, from the installed copy alone.
cp "$root/examples/finetune.c" .
check "the example is short" [ "$(wc -l <finetune.c)" -lt 150 ]
# shellcheck disable=SC2046,SC2086
check "it builds with pkg-config" \
    $compiler -std=c11 -Wextra -Werror $flags finetune.c $(pkg-config --cflags --libs lathe) -o finetune
# shellcheck disable=SC2046,SC2086
$compiler -std=c11 $flags finetune.c $(pkg-config --cflags --libs lathe) \
    -Wl,-rpath,"$prefix/lib" -o by-path
check "built with the path of a private library it needs no environment" \
    bash -c "env -u LD_LIBRARY_PATH ./by-path 2>&1 | grep -q '^usage: '"
check "it runs" bash -c "./finetune '$demo/model' '$demo/train.jsonl' tuned >out.txt 2>err.txt"
check "a line for each step" [ "$(grep -c '^step [1-4]/4  loss [0-9.]*  rate' out.txt)" = 4 ]
check "an answer" grep -qE '^Answer:.' out.txt
check "a loss" grep -qE '^loss [0-9.]+ over [0-9]+ tokens' out.txt
check "the tuned model scores the same" bash -c \
    "'$LATHE' score tuned/model --text 'Tom has 5 apples.' | cut -c1-10 | grep -qF \"\$(grep '^loss' out.txt | cut -c1-10)\""
check "it saved a model that lathe opens" \
    bash -c "'$LATHE' inspect tuned/model-bf16 | grep -q 'embed_tokens.weight *bf16'"
check "notes come through the handler" grep -q '^  Starting fine-tuning: model=' err.txt
./finetune nothing "$demo/train.jsonl" tuned2 >out.txt 2>err.txt
check "a missing model is code 3" [ $? = 3 ]
check "and one line that names it" [ "$(grep -c '^finetune: nothing' err.txt)" = 1 ]
# shellcheck disable=SC2046,SC2086
check "it links with the static library" $compiler -std=c11 $flags finetune.c \
    $(pkg-config --cflags lathe) "$prefix/lib/liblathe.a" \
    $(pkg-config --libs --static lathe | sed 's/-llathe//') -o finetune-static
env -u LD_LIBRARY_PATH ./finetune-static 2>err.txt
check "which then needs nothing of it" [ $? = 2 ]

# The manual page: no complaint of man, every command and setting in it.
page=$prefix/share/man/man1/lathe.1
if command -v man >/dev/null; then
    MANWIDTH=80 man --warnings -l "$page" >page.txt 2>warnings.txt
    check "man renders the page" [ -s page.txt -a ! -s warnings.txt ]
else
    cp "$page" page.txt
fi
for command in $("$LATHE" help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    check "the page has lathe $command" grep -qE "lathe +$command" page.txt
done
n=$("$LATHE" settings | grep -c '^[a-z]')
check "the page has all $n settings" [ "$(grep -c '(default: ' "$page")" = "$n" ]

# Completion: commands, options, settings, their choices.
completion=$prefix/share/bash-completion/completions/lathe
check "the completion parses" bash -n "$completion"
# What the Tab key offers behind these words, as bash has split them.
offers()
{
    bash -c '. "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _lathe; echo "${COMPREPLY[@]}"' bash "$completion" "$@"
}
check "commands" [ "$(offers lathe tra)" = train ]
check "options" [ "$(offers lathe train --ov)" = --overwrite ]
check "settings" [ "$(offers lathe train run.yaml --set train.optimizer.weig)" = train.optimizer.weight_decay= ]
check "choices" [ "$(offers lathe train run.yaml --set train.schedule.kind = co)" = "constant cosine" ]
check "choices behind --set=" [ "$(offers lathe train --set = train.recompute = la)" = layer ]
check "switches" [ "$(offers lathe train --set data.pack = f)" = false ]
check "values of options" [ "$(offers lathe help --completion z)" = zsh ]
check "types" [ "$(offers lathe convert from to --dtype b)" = bf16 ]
touch my-run.yaml
check "files" [ "$(offers lathe train my-r)" = my-run.yaml ]
refused "a shell that is not known" 2 "expected bash or zsh" "$LATHE" help --completion fish
if command -v zsh >/dev/null; then
    check "the completion for zsh parses" zsh -n "$prefix/share/zsh/site-functions/_lathe"
fi

# Taken away again; and a package's folder in front.
check "uninstall" "$root/tools/install" --remove "$prefix"
check "nothing is left" [ -z "$(find "$prefix" ! -type d)" ]
check "install with DESTDIR" "$root/tools/install" "$out" /usr "$work/package"
check "files are below it" [ -x "$work/package/usr/bin/lathe" ]
check "and know their place" grep -qx 'prefix=/usr' "$work/package/usr/lib/pkgconfig/lathe.pc"
refused_prefix=$("$root/tools/install" "$out" relative 2>&1)
check "a relative prefix is refused" grep -q 'begins with /' <<<"$refused_prefix"
finish
