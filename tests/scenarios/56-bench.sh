#!/usr/bin/env bash
# lathe bench and --profile, as a user calls them, with right and with wrong input.
. "$(dirname "$0")/../support/scenario.sh"
export XDG_CACHE_HOME=$work/cache LC_ALL=C

shape=$golden/gemma3-tiny
"$LATHE" bench --model-shape "$shape" --rows 3 --row-tokens 32 --steps 1 --lora 2 --set lora.base=bf16 \
    --threads 1 --json --profile trace.json >bench.json
check "a step is measured" [ $? = 0 ]
check "on one line" [ "$(wc -l <bench.json)" = 1 ]
for member in gemm_peak_gflops tokens_per_s mfu peak_bytes first_step_s kernels; do
    check "with $member" grep -q "\"$member\": [{0-9]" bench.json
done
check "as it was asked for" grep -q '"rows": 3, "row_tokens": 32, "steps": 1, "lora_rank": 2, "lora_base": "bf16"' bench.json
check "the trace has nodes" grep -q '"cat":"matmul"' trace.json

"$LATHE" bench --model-shape "$shape" --generate --row-tokens 8 --steps 2 --threads 1 >said
check "generation is measured" grep -q '^speed .* tokens/s, best of 2' said
check "beside the memory's rate" grep -q '^weights read .* GB/s that memory gives' said

refused "no such shape" 2 "shapes are gemma3-270m" "$LATHE" bench --model-shape gemma5
refused "no rows" 2 "--rows 0: expected a whole number from 1" "$LATHE" bench --rows 0
refused "rows that are no number" 2 "--rows 4x" "$LATHE" bench --rows 4x
refused "no steps" 2 "--steps -1" "$LATHE" bench --steps -1
refused "rows of one token" 2 "--row-tokens:" "$LATHE" bench --row-tokens 1
refused "no such precision" 2 "--precision:" "$LATHE" bench --precision f16
refused "no such setting" 2 "train.rows" "$LATHE" bench --set train.rows=3
refused "weights of a file" 2 "bench makes up its weights" "$LATHE" bench --set init=weights
refused "adapters that answer" 2 "does not go with --generate" "$LATHE" bench --generate --lora 4
refused "a word too many" 2 "no arguments expected" "$LATHE" bench gemma3-270m
refused "a limit that cannot be kept" 4 "the run needs" "$LATHE" bench --model-shape "$shape" --memory-limit 1000000
refused "no such folder for the trace" 3 "nowhere/trace.json" \
    "$LATHE" bench --model-shape "$shape" --rows 1 --row-tokens 8 --steps 1 --profile nowhere/trace.json

# The same of a run: a table at its end, and the trace in its folder.
head -n 8 "$demo/train.jsonl" >train.jsonl
cat >run.yaml <<END
model: $demo/model
run: runs/a
data:
  train: train.jsonl
  format: instruction
  template: "Question: {question}\nAnswer: "
  response: answer
  row_tokens: 256
train: {steps: 1, batch_rows: 1, save_model: false}
END
"$LATHE" train run.yaml --profile >table 2>said
check "a run with --profile ends well" [ $? = 0 ]
check "it prints a table" grep -q '^matmul .*%' table
check "and says where its trace is" grep -q 'runs/a/trace.json' said
check "which has the update" grep -q '"cat":"adamw"' runs/a/trace.json
"$LATHE" train run.yaml --overwrite 2>/dev/null
check "a run without it has none" [ ! -e runs/a/trace.json ]
finish
