#!/usr/bin/env bash
# An adapter for the demo's model: trained, scored, merged and scored again with the same
# loss (C14, D6), gone on from; and what goes wrong, told in one line.
. "$(dirname "$0")/../support/scenario.sh"

model=$demo/model
head -n 24 "$demo/train.jsonl" >train.jsonl
head -n 4 "$demo/eval.jsonl" >eval.jsonl
cat >run.yaml <<EOF
model: $model
run: run
data:
  train: train.jsonl
  eval: eval.jsonl
  format: instruction
  template: "Question: {question}\nAnswer: "
  response: answer
  row_tokens: 256
train: {steps: 4, batch_rows: 4, optimizer: {lr: 1.0e-2}, schedule: {kind: constant}}
lora: {rank: 8, alpha: 16, dropout: 0.1}
sample: {prompts: ["Question: Tom has 5 apples and eats 2. How many are left?\nAnswer: "]}
EOF
text="Question: Tom has 5 apples and eats 2. How many are left?
Answer: 5 - 2 = 3"

# loss FILE: what a score in JSON says, in millionths.
loss()
{
    sed 's/^{"loss": \([0-9.]*\),.*/\1/' "$1" | awk '{printf "%.0f", $1 * 1e6}'
}
near()
{
    awk -v a="$1" -v b="$2" -v limit="$3" 'BEGIN {exit !(a - b <= limit && b - a <= limit)}'
}

"$LATHE" train run.yaml 2>log
check "a run with adapters ends well" [ $? = 0 ]
check "it says how much is trained" \
    grep -q 'parameters, 112896 of adapters of rank 8 trained (5.9 %)' log
check "and that weights stay in their file" grep -q 'frozen weights are read in place' log
check "the result is an adapter" [ -f run/adapter/adapter_model.safetensors ]
check "and no model" [ ! -e run/model ]
check "inspect knows it" \
    bash -c "'$LATHE' inspect run/adapter | grep -q 'LoRA adapter, rank 8, alpha 16, dropout 0.1'"
check "inspect lists its matrices" \
    bash -c "'$LATHE' inspect run/adapter | grep -q 'layers.0.self_attn.q_proj.lora_A.weight .*f32 .*\[8, 160\]'"
check "inspect of the run tells of it" bash -c "'$LATHE' inspect run | grep -q 'adapter in adapter/'"

# The adapter and the merged model are one model.
"$LATHE" score "$model" --text "$text" --json >plain.json
"$LATHE" score "$model" --adapter run/adapter --text "$text" --json >adapted.json
check "the adapter changes the loss" [ "$(loss plain.json)" != "$(loss adapted.json)" ]
"$LATHE" convert "$model" merged --adapter run/adapter --dtype f32 2>log
check "an adapter is merged" [ $? = 0 ]
"$LATHE" score merged --text "$text" --json >merged.json
check "the merged model scores the same" near "$(loss merged.json)" "$(loss adapted.json)" 10
"$LATHE" export run exported 2>log
check "an adapter is exported" cmp run/adapter/adapter_model.safetensors \
    exported/adapter_model.safetensors
"$LATHE" export run whole --merge --dtype f32 2>log
check "or as a whole model" cmp merged/model.safetensors whole/model.safetensors

# So are their answers, token by token, and the log-probabilities of each.
prompt="Question: Tom has 5 apples and eats 2. How many are left?
Answer: "
"$LATHE" generate "$model" --adapter run/adapter --prompt "$prompt" --max-tokens 64 \
    --temperature 0 >adapted.txt 2>log
check "an adapter answers" [ $? = 0 ]
"$LATHE" generate merged --prompt "$prompt" --max-tokens 64 --temperature 0 >merged.txt 2>log
check "the merged model gives the same 64 tokens" cmp adapted.txt merged.txt
"$LATHE" generate merged --prompt "$prompt" --max-tokens 64 --temperature 0 --json \
    >merged.json 2>log
text_of()
{
    sed 's/.*"text": \("\([^"\\]\|\\.\)*"\).*/\1/' "$1"
}
tail -n 1 run/samples.jsonl >sample.json
check "and what the trainer itself had answered" \
    [ "$(text_of sample.json)" = "$(text_of merged.json)" ]
check "which is some text" [ "$(text_of merged.json | wc -c)" -gt 8 ]
"$LATHE" score "$model" --adapter run/adapter --text "$text" --per-token >adapted.txt
"$LATHE" score merged --text "$text" --per-token >merged.txt
check "and the same log-probabilities" \
    bash -c "paste -d ' ' <(head -n 1 adapted.txt | tr ' ' '\n') <(head -n 1 merged.txt | tr ' ' '\n') |
        awk '{d = \$1 - \$2; if (d > 2e-5 || d < -2e-5) bad++} END {exit NR < 10 || bad > 0}'"

# An adapter of one layer: its bf16 weight is merged, the others stay in their file.
"$LATHE" train run.yaml --set run=one --set train.steps=1 --set lora.dropout=0 \
    --set 'lora.targets=["*layers.1.mlp.*"]' --set sample.prompts=null 2>log
check "an adapter of one layer" [ $? = 0 ]
check "is named as a whole" grep -q '"model.layers.1.mlp.up_proj"' one/adapter/adapter_config.json
"$LATHE" generate "$model" --adapter one/adapter --prompt "$prompt" --max-tokens 8 >one.txt 2>log
check "and answers" [ $? = 0 ]

# The trainer's own figure: its held-out loss is that of the merged model.
held_out=$(sed -n 's/^step 4: held-out loss \([0-9.]*\) .*/\1/p' run/log.txt | tail -n 1)
sed 's/^lora:.*//; s/^run: run/run: none/; s/steps: 4/steps: 1/; s/lr: 1.0e-2/lr: 0/' \
    run.yaml >again.yaml
"$LATHE" train again.yaml --set model=whole 2>log
check "held-out loss of the merged model is the trainer's" \
    grep -q "^step 0: held-out loss $held_out " none/log.txt

# Going on from an adapter, with the same random numbers as before.
"$LATHE" train run.yaml --set run=more --set lora.adapter=run/adapter --set lora.rank=0 2>log
check "a run goes on from an adapter" [ $? = 0 ]
check "with its rank and alpha" grep -q 'rank 8, alpha 16' log
check "where it had stopped" grep -q "^step 0: held-out loss $held_out " more/log.txt
"$LATHE" train run.yaml --set run=twin 2>log
check "the same run gives the same bits" cmp run/adapter/adapter_model.safetensors \
    twin/adapter/adapter_model.safetensors

# Wrong input.
refused "a target that is none" 2 'no weight matches "q_prog"' \
    "$LATHE" train run.yaml --set run=x --set 'lora.targets=[q_prog]'
refused "targets without a rank" 2 "lora.rank is 0" \
    "$LATHE" train run.yaml --set run=x --set lora.rank=0
refused "a rank that the adapter has not" 2 "lora.rank is 4, but the adapter" \
    "$LATHE" train run.yaml --set run=x --set lora.rank=4 --set lora.adapter=run/adapter
refused "a folder that is no adapter" 3 "no adapter_config.json" \
    "$LATHE" score "$model" --adapter merged --text hello
refused "an adapter of another model" 3 "adapter_model.safetensors: tensor " \
    "$LATHE" score "$golden/gemma4-e2b-tiny" --adapter run/adapter --tokens "$demo/none"
cp -r run/adapter dora
sed -i 's/"use_dora": false/"use_dora": true/' dora/adapter_config.json
refused "what lathe does not do" 3 "use_dora is set" \
    "$LATHE" score "$model" --adapter dora --text hello
finish
