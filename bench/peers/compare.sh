#!/bin/sh
# compare.sh - lathe and PyTorch side by side: the same training step, pair by pair.
#
# Runs `lathe bench` and gemma3_270m_torch.py in turn, so that both meet the same state of
# the machine, and prints each pair's figures and ratio, then the median ratio. With --real
# both train on rows of a file: PyTorch pads each to 512 tokens, as the reference script
# does; lathe packs them and learns the responses. Counted are real tokens, without padding.
#
# usage: bench/peers/compare.sh [--compiled] [PAIRS [ROWS [TOKENS [STEPS]]]]     (3, 1, 512, 3)
#        bench/peers/compare.sh [--compiled] --real TOKENS.jsonl MODEL [PAIRS [ROWS [STEPS]]]
#        (token_rows.py makes TOKENS.jsonl; of MODEL only the shape counts; 3, 4, 3)
# environment: PYTHON (python3) has torch; LATHE names the program (build/release/lathe);
#              THREADS (as many as processors); FUSED=1 gives PyTorch its fused AdamW
set -eu

here=$(cd "$(dirname "$0")" && pwd)
lathe=${LATHE:-$here/../../build/release/lathe}
python=${PYTHON:-python3}
threads=${THREADS:-$(nproc)}
compiled='' data='' model=''
while [ $# -gt 0 ]; do
    case $1 in
    --compiled) compiled=--compiled ;;
    --real)
        [ $# -ge 3 ] || { echo "compare.sh: --real wants TOKENS.jsonl and MODEL" >&2; exit 2; }
        data=$2 model=$3
        shift 2
        ;;
    -*) echo "compare.sh: no option $1" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
if [ -n "$data" ]; then
    pairs=${1:-3} rows=${2:-4} tokens=512 steps=${3:-3}
    for file in "$data" "$model"; do
        [ -e "$file" ] || { echo "compare.sh: $file: no such file" >&2; exit 3; }
    done
else
    pairs=${1:-3} rows=${2:-1} tokens=${3:-512} steps=${4:-3}
fi

# Either of these would hold one of the two back.
unset OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS

if [ ! -x "$lathe" ]; then
    echo "compare.sh: no program $lathe; build it with: make all" >&2
    exit 1
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "compare.sh: $python has no torch; see bench/peers/README.md" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# A member of a line of JSON, as both programs print one.
figure() { sed -n "s/.*\"$2\": *\([-0-9.e+]*\)[,}].*/\1/p" "$work/$1"; }
text() { sed -n "s/.*\"$2\": *\"\([^\"]*\)\".*/\1/p" "$work/$1"; }
gib() { awk -v bytes="$1" 'BEGIN { printf "%.2f", bytes / 1073741824 }'; }

# A run of lathe over the rows of the file, packed. Its metrics make the same line: all
# steps but the first.
train_real()
{
    cat >"$work/run.yaml" <<END
model: $model
run: $work/run
init: random
threads: $threads
data: {train: $data, format: tokens, row_tokens: $tokens}
train: {epochs: 1000, steps: $((steps + 1)), batch_rows: $rows, save_model: false}
END
    "$lathe" train "$work/run.yaml" --overwrite >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
    sed 's/.*"real_tokens_per_s": \([0-9.e+]*\),.*"step_ms": \([0-9.e+]*\),.*"memory_bytes": \([0-9]*\),.*/\1 \2 \3/' \
        "$work/run/metrics.jsonl" | awk 'NR > 1 { n += $1 * $2; ms += $2; if ($3 > most) most = $3 }
        END { printf "{\"tokens_per_s\": %.2f, \"peak_bytes\": %d}\n", n / ms, most }'
}

run_lathe()
{
    if [ -n "$data" ]; then
        train_real
    else
        "$lathe" bench --rows "$rows" --row-tokens "$tokens" --steps "$steps" \
            --threads "$threads" --json
    fi
}

run_torch()
{
    "$python" "$here/gemma3_270m_torch.py" --rows "$rows" --tokens "$tokens" \
        --steps "$steps" --threads "$threads" ${FUSED:+--fused} $compiled \
        ${data:+--data "$data"} --json
}

kind=${compiled:+compiled}
echo "$threads threads, $rows x $tokens tokens, $steps steps, load $(cut -d' ' -f1 /proc/loadavg)," \
    "PyTorch ${kind:-eager}${data:+, real tokens of $(basename "$data")}"
echo "pair  lathe tok/s  mfu    GiB   torch tok/s  mfu    GiB   lathe/torch"
i=0
while [ "$i" -lt "$pairs" ]; do
    i=$((i + 1))
    run_lathe >"$work/lathe"
    run_torch >"$work/torch"
    a=$(figure lathe tokens_per_s) b=$(figure torch tokens_per_s)
    ratio=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", a / b }')
    echo "$ratio" >>"$work/ratios"
    printf '%-5s %-12s %-6s %-5s %-12s %-6s %-5s %s\n' "$i" \
        "$a" "$(figure lathe mfu)" "$(gib "$(figure lathe peak_bytes)")" \
        "$b" "$(figure torch mfu)" "$(gib "$(figure torch peak_bytes)")" "$ratio"
done
[ -n "$data" ] || echo "lathe: $(text lathe engine), GEMM peak $(figure lathe gemm_peak_gflops) GFLOP/s"
echo "torch: $(text torch engine), GEMM peak $(figure torch gemm_peak_gflops) GFLOP/s"
target=1.4
[ -z "$data" ] || target=5
sort -n "$work/ratios" | awk -v target="$target" '{ ratio[NR] = $1 } END {
    print "median lathe/torch:", ratio[int((NR + 1) / 2)], "(target: at least " target ", eager)" }'
