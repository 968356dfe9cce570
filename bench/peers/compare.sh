#!/bin/sh
# compare.sh - lathe and PyTorch eager side by side: the same training step, pair by pair.
#
# Runs bench/step.c's program and gemma3_270m_torch.py in turn, so that both meet the same
# state of the machine, and prints each pair's figures and ratio, then the median ratio.
#
# usage: bench/peers/compare.sh [PAIRS [ROWS [TOKENS [STEPS]]]]     (3, 1, 512, 4)
# environment: PYTHON (python3) has torch; STEP names the program (build/release/bench/step);
#              THREADS (as many as processors); FUSED=1 gives PyTorch its fused AdamW
set -eu

here=$(cd "$(dirname "$0")" && pwd)
step=${STEP:-$here/../../build/release/bench/step}
python=${PYTHON:-python3}
pairs=${1:-3} rows=${2:-1} tokens=${3:-512} steps=${4:-4}
threads=${THREADS:-$(nproc)}

# Either of these would hold one of the two back.
unset OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS

if [ ! -x "$step" ]; then
    echo "compare.sh: no program $step; build it with: make bench" >&2
    exit 1
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "compare.sh: $python has no torch; see bench/peers/README.md" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

figure() { sed -n "s/^$2: //p" "$work/$1"; }

echo "$threads threads, $rows x $tokens tokens, best of $steps steps, load $(cut -d' ' -f1 /proc/loadavg)"
echo "pair  lathe tok/s  share  GiB   torch tok/s  share  GiB   lathe/torch"
i=0
while [ "$i" -lt "$pairs" ]; do
    i=$((i + 1))
    "$step" "$rows" "$tokens" "$steps" "$threads" >"$work/lathe"
    "$python" "$here/gemma3_270m_torch.py" --rows "$rows" --tokens "$tokens" \
        --steps "$steps" --threads "$threads" ${FUSED:+--fused} >"$work/torch"
    a=$(figure lathe tokens_per_s) b=$(figure torch tokens_per_s)
    ratio=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", a / b }')
    echo "$ratio" >>"$work/ratios"
    printf '%-5s %-12s %-6s %-5s %-12s %-6s %-5s %s\n' "$i" \
        "$a" "$(figure lathe share_of_peak)" "$(figure lathe peak_memory_gib)" \
        "$b" "$(figure torch share_of_peak)" "$(figure torch peak_memory_gib)" "$ratio"
done
echo "lathe: $(figure lathe engine), GEMM peak $(figure lathe gemm_gflops) GFLOP/s"
echo "torch: $(figure torch engine), GEMM peak $(figure torch gemm_gflops) GFLOP/s"
sort -n "$work/ratios" | awk '{ ratio[NR] = $1 } END {
    print "median lathe/torch:", ratio[int((NR + 1) / 2)], "(target: at least 1)" }'
