#!/usr/bin/env bash
# Memory, disk and files fail at the n-th call, for all n: one line, the right exit code,
# no torn file (G3). With sanitizers also no leak, as an error ends the program by main.
#
# LATHE_TEST_ALL=1 takes every n up to 256, and further on, where loops over tokens and rows
# ask for the same again, each sixteenth part further; else every n up to 4 and ever fewer.
. "$(dirname "$0")/../support/scenario.sh"

out=$(dirname "$LATHE")
shim=$out/tests/fault.so
if [ ! -f "$shim" ]; then
    echo "no $shim"
    exit 77
fi
# A sanitizer wants to be loaded first, and its leak report is a failure with code 23.
export ASAN_OPTIONS=verify_asan_link_order=0:exitcode=99 UBSAN_OPTIONS=exitcode=99
is_sanitized=no
grep -q fsanitize "$out/flags" && is_sanitized=yes

model=$demo/model
head -n 12 "$demo/train.jsonl" >rows.jsonl
cat >run.yaml <<END
model: $model
run: result
threads: 1
data: {train: ../rows.jsonl, template: "Q: {question}\nA: ", response: answer, row_tokens: 64, cache: cache}
train: {steps: 1, epochs: 0, batch_rows: 1, freeze: ["*embed*"]}
END
"$LATHE" train run.yaml --set data.train=rows.jsonl --set run=done >done.txt 2>&1
check "a run to export" [ $? = 0 ]
rm -rf cache

# In the folder of a round: what the command left is whole. Files and folders on their way
# have names of their own (NAME.tmp-*, NAME.partial-HOST-PID, best.new), and none is left; what has
# its final name is, byte for byte, what the command makes without a fault (in ../good).
# Metrics and logs differ by times, and a run that failed may have less of them.
is_whole()
{
    local path
    [ -z "$(find . \( -name '*.tmp*' -o -name '*.partial-*' -o -name '*.new' \) -print -quit)" ] || return 1
    for path in cache/* result/model result/best; do
        [ ! -e "$path" ] || diff -rq "$path" "../good/$path" >/dev/null || return 1
    done
    [ ! -e result ] || [ -e result/run.yaml ] || diff -rq result ../good/result >/dev/null
}

# Small memory that is not to be had ends the program on the spot (base/mem.h). What was on
# its way stays, under its own name, and the next try removes it.
is_left_to_the_next()
{
    local call=$1 got=$2
    shift 2
    [[ $call = *alloc && $got = 4 ]] && "$@" >../again 2>&1 </dev/null && is_whole
}

# sweep NAME CALL EFFECT CODES COMMAND...: the n-th CALL has this effect, for n = 1, 2, ...
# until there are no more of them; each time the exit code is one of CODES. 0 means that
# the command could do without. Each round has a new folder.
good_of=
sweep()
{
    local name=$1 call=$2 effect=$3 codes=$4 n=1 got lines n_faults=0
    shift 4
    if [ "$good_of" != "$*" ]; then
        rm -rf good && mkdir good && (cd good && "$@" >../stdout 2>../stderr </dev/null)
        good_of=$*
    fi
    while true; do
        rm -rf round hit && mkdir round && cd round || exit 1
        FAULT=$call:$n:$effect FAULT_NOTE=../hit LD_PRELOAD=$shim timeout 60 \
            "$@" >../stdout 2>../stderr </dev/null
        got=$?
        lines=$(grep -c '^lathe: error: ' ../stderr)
        if [ -e ../hit ] && { [[ " $codes " != *" $got "* ]] || [ "$got" = 0 -a "$lines" != 0 ] ||
            [ "$got" != 0 -a "$lines" != 1 ] ||
            ! { is_whole || is_left_to_the_next $call $got "$@"; }; }; then
            not_ok "$name: $call $n is $effect: code $got, $lines lines"
            tail -n 5 ../stderr | cut -c1-300 | sed 's/^/    /'
            find . | head -n 20 | sed 's/^/    /'
            cd ..
            return
        fi
        cd ..
        [ -e hit ] || break
        n_faults=$((n_faults + 1))
        if [ "${LATHE_TEST_ALL:-0}" = 1 ]; then
            n=$((n < 256 ? n + 1 : n + n / 16))
        else
            n=$((n < 4 ? n + 1 : n * 3 - 2))
        fi
    done
    if [ "$got" = 0 ] && [ "$n_faults" -gt 0 ]; then
        ok "$name: $call, $effect ($n_faults faults)"
    else
        not_ok "$name: $call, $effect: $n_faults faults, code $got without"
        tail -n 3 stderr | sed 's/^/    /'
    fi
}

# Reading only. Some memory is asked for by libraries, which can do without.
sweep "load a tokenizer" alloc ENOMEM "0 4" "$LATHE" tokenize "$model" "Tom has 5 apples."
sweep "load a tokenizer" open EIO "0 3" "$LATHE" tokenize "$model" "Tom has 5 apples."
sweep "load a tokenizer" map ENOMEM 4 "$LATHE" tokenize "$model" "Tom has 5 apples."
sweep "load a model" alloc ENOMEM "0 4" "$LATHE" inspect "$model"
sweep "load a model" map ENOMEM 4 "$LATHE" inspect "$model"
sweep "load a model" open EMFILE 3 "$LATHE" inspect "$model"
# A file that becomes shorter while it is mapped, as one that the disk cannot read.
cp -r "$model" short
FAULT=map:1:CUT LD_PRELOAD=$shim "$LATHE" inspect short/model.safetensors >stdout 2>stderr
check "a mapped file that goes away is code 3" [ $? = 3 ]
check "and one line" [ "$(grep -c '^lathe: error: .*made shorter' stderr)" = 1 ]

# Planning: everything before the first step. A run file that cannot be read is code 2.
sweep "plan" alloc ENOMEM "0 4" "$LATHE" train ../run.yaml --dry-run
sweep "plan" read EIO "0 2 3" "$LATHE" train ../run.yaml --dry-run
sweep "plan" read SHORT 0 "$LATHE" train ../run.yaml --dry-run
sweep "plan" read EINTR 0 "$LATHE" train ../run.yaml --dry-run
sweep "plan" open EIO "0 2 3" "$LATHE" train ../run.yaml --dry-run
# Writing a model.
for call in write fsync rename open mkdir; do
    sweep "convert" $call ENOSPC "0 4" "$LATHE" convert "$model" result --dtype bf16
done
sweep "convert" write ENOSPC:lasts 4 "$LATHE" convert "$model" result --dtype bf16
for call in write fsync; do
    sweep "convert" $call EIO "0 3" "$LATHE" convert "$model" result --dtype bf16
done
sweep "convert" write SHORT 0 "$LATHE" convert "$model" result --dtype bf16
sweep "convert" write EINTR 0 "$LATHE" convert "$model" result --dtype bf16
sweep "convert" close EIO "0 3" "$LATHE" convert "$model" result --dtype bf16
sweep "convert" alloc ENOMEM "0 4" "$LATHE" convert "$model" result --dtype bf16
# Rows on their way into the cache. The run can do without one.
for call in write rename open mkdir; do
    sweep "tokenise" $call ENOSPC "0 4" "$LATHE" train ../run.yaml --dry-run
done
sweep "tokenise" write EIO "0 3" "$LATHE" train ../run.yaml --dry-run
sweep "tokenise" map ENOMEM "0 4" "$LATHE" train ../run.yaml --dry-run
sweep "tokenise" write SHORT 0 "$LATHE" train ../run.yaml --dry-run
sweep "tokenise" write EINTR 0 "$LATHE" train ../run.yaml --dry-run
# Exporting what a run has made.
for call in write fsync rename open mkdir; do
    sweep "export" $call ENOSPC "0 4" "$LATHE" export ../done result
done
for call in read write fsync close; do
    sweep "export" $call EIO "0 3" "$LATHE" export ../done result
done
sweep "export" alloc ENOMEM "0 4" "$LATHE" export ../done result
for effect in SHORT EINTR; do
    sweep "export" read $effect 0 "$LATHE" export ../done result
    sweep "export" write $effect 0 "$LATHE" export ../done result
done
# A whole run.
for call in write fsync rename open; do
    sweep "a run" $call ENOSPC "0 1 4" "$LATHE" train ../run.yaml --overwrite
done
sweep "a run" alloc ENOMEM "0 4" "$LATHE" train ../run.yaml --overwrite
sweep "a run" read EIO "0 2 3" "$LATHE" train ../run.yaml --overwrite
sweep "a run" write EIO "0 1 3" "$LATHE" train ../run.yaml --overwrite
sweep "a run" write EINTR 0 "$LATHE" train ../run.yaml --overwrite
sweep "a run" write SHORT 0 "$LATHE" train ../run.yaml --overwrite
if [ $is_sanitized = no ]; then
    sweep "load a model" malloc ENOMEM "0 4" "$LATHE" inspect "$model"
    sweep "plan" malloc ENOMEM "0 4" "$LATHE" train ../run.yaml --dry-run
fi
finish
