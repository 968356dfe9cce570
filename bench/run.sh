#!/bin/sh
# run.sh - the set of benchmarks that has targets: a table with the target beside each
# figure, and a CSV file with the figures.
#
# Whole steps of the 270M shape, LoRA, number formats, threads, generation, and the start of
# the demo. Takes some ten minutes on two quiet cores. Figures of a machine that does other
# work are of no use; the load before the start is in the CSV.
#
# usage: bench/run.sh [ENTRY...]       (all; entries: see the list at the end)
# environment: LATHE (build/release/lathe), STEPS (2), THREADS (as many as processors),
#              CSV (bench/results/DATE.csv), SHAPE (gemma3-270m; other shapes have no targets)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
lathe=${LATHE:-$root/build/release/lathe}
steps=${STEPS:-2}
threads=${THREADS:-$(nproc)}
shape=${SHAPE:-gemma3-270m}
csv=${CSV:-$here/results/$(date +%Y-%m-%d).csv}
wanted=" $* "

if [ ! -x "$lathe" ]; then
    echo "run.sh: no program $lathe; build it with: make all" >&2
    exit 1
fi
unset OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS OMP_NUM_THREADS

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

load=$(cut -d' ' -f1 /proc/loadavg)
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1 | tr -d ',')
mkdir -p "$(dirname "$csv")"
[ -s "$csv" ] || echo "entry,tokens_per_s,mfu,share,peak_gib,first_s,gemm_gflops,engine,processor,load" >"$csv"

echo "$processor, $threads threads, load $load; $shape"
format='%-22s %10s %6s %6s %9s %8s   %s\n'
printf "$format" entry tokens/s mfu share "peak GiB" "first s" target

# figure NAME: that member of the last result, empty where it has none
figure() { sed -n "s/.*\"$1\": *\([-0-9.e+]*\)[,}].*/\1/p" "$work/result"; }
text() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$work/result"; }

# row ENTRY TARGET: the last result into the table and the CSV
row()
{
    gib=$(awk -v bytes="$(figure peak_bytes)" 'BEGIN { printf "%.2f", bytes / 1073741824 }')
    first=$(figure first_step_s)
    [ -n "$first" ] || first=$(figure first_token_s)
    printf "$format" "$1" "$(figure tokens_per_s)" "$(figure mfu)" "$(figure share_of_bandwidth)" \
        "$gib" "$first" "$2"
    echo "$1,$(figure tokens_per_s),$(figure mfu),$(figure share_of_bandwidth),$gib,$first,$(
        figure gemm_peak_gflops),$(text engine | tr -d ','),$processor,$load" >>"$csv"
}

# is_wanted ENTRY: no entries given, or this one is among them
is_wanted() { [ "$wanted" = "  " ] || case $wanted in *" $1 "*) ;; *) return 1 ;; esac }

# entry NAME TARGET OPTION...: one run of lathe bench
entry()
{
    name=$1 target=$2
    shift 2
    is_wanted "$name" || return 0
    if "$lathe" bench --model-shape "$shape" --threads "$threads" --json "$@" >"$work/result"; then
        row "$name" "$target"
    else
        printf '%-22s failed\n' "$name"
    fi
}

# The demo from the start of the process to its first step. The whole process is timed, which
# is a little more: it also reads the data, takes the step and ends.
demo_start()
{
    is_wanted demo-start || return 0
    demo=$root/examples/demo/demo.yaml
    from=$(date +%s%N)
    (cd "$root" && "$lathe" train "$demo" --set run="$work/demo" --set train.steps=1 \
        --set train.save_model=false --set data.eval=[] --set eval.save_best=false \
        >"$work/said" 2>&1) || { printf '%-22s failed\n' demo-start; cat "$work/said"; return 0; }
    seconds=$(awk -v ns="$(($(date +%s%N) - from))" 'BEGIN { printf "%.2f", ns / 1e9 }')
    bytes=$(sed -n 's/.*"memory_bytes": *\([0-9]*\).*/\1/p' "$work/demo/metrics.jsonl" | tail -n 1)
    step=$(sed -n 's/.*"step_ms": *\([0-9.]*\).*/\1/p' "$work/demo/metrics.jsonl" | tail -n 1)
    start=$(awk -v all="$seconds" -v step="${step:-0}" 'BEGIN { printf "%.2f", all - step / 1000 }')
    echo "{\"first_step_s\": $start, \"peak_bytes\": ${bytes:-0}}" >"$work/result"
    row demo-start "first step after 0.5 s, below 0.2 GiB"
}

entry full-1x512 "mfu 0.65" --rows 1 --steps "$steps"
entry full-4x512 "mfu 0.75, 5 GiB" --rows 4 --steps "$steps"
entry full-16x512 "5.5 GiB" --rows 16 --steps 1
entry one-thread-1x512 "two threads 1.8 times as fast" --rows 1 --steps "$steps" --threads 1
entry lora-f32-4x512 "1.3 times full-4x512, 1.6 GiB" --rows 4 --steps "$steps" --lora 16 --set lora.base=f32
entry lora-bf16-4x512 "1.3 times full-4x512, 1.1 GiB" --rows 4 --steps "$steps" --lora 16 --set lora.base=bf16
entry bf16-compute-4x512 "0.8 of full-4x512; 1.5 times with bf16 instructions" \
    --rows 4 --steps "$steps" --precision bf16-compute
entry bf16-4x512 "the same" --rows 4 --steps "$steps" --precision bf16
entry generate-bf16 "share 0.7" --generate --rows 1
demo_start
echo "kept in ${csv#"$root"/}"
