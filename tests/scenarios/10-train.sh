#!/usr/bin/env bash
# A run from the command line on a tiny model: metrics, settings, tuned model; the same
# bits again and at another thread count (G6); what the tuned model scores.
. "$(dirname "$0")/../support/scenario.sh"

model=$golden/gemma4-e2b-tiny
for r in $(seq 1 40); do
    row=2
    for i in $(seq 1 $((3 + r * 7 % 19))); do
        row="$row, $((5 + (r * 31 + i * 13) % 240))"
    done
    echo "{\"input_ids\": [$row]}"
done >train.jsonl
head -n 8 train.jsonl >eval.jsonl
cat >run.yaml <<EOF
model: $model
run: run
data: {train: train.jsonl, eval: eval.jsonl, format: tokens, row_tokens: 32}
train:
  epochs: 2
  batch_rows: 3
  micro_rows: 2
  optimizer: {lr: 1.0e-3}
  schedule: {kind: cosine, warmup_steps: 3}
eval: {every_steps: 4, at_epoch_end: true}
EOF

"$LATHE" train run.yaml 2>log
check "run ends well" [ $? = 0 ]
check "run.yaml is written" grep -q '^  epochs: 2$' run/run.yaml
check "log.txt holds the summary" grep -q '^Done: ' run/log.txt
check "an epoch gets its line" grep -q '^Epoch 2/2 | loss=' run/log.txt
steps=$(wc -l <run/metrics.jsonl)
check "a line per step" [ "$steps" -gt 8 ]
check "steps count from 1" grep -q '^{"step": 1, ' run/metrics.jsonl
check "warm-up: lr * 1 / 3" grep -q '"step": 1, .*"lr": 0.000333333' run/metrics.jsonl
check "held-out loss by steps" grep -q '"step": 4, .*"eval_loss"' run/metrics.jsonl

field()
{
    sed -n "s/.*\"$2\": \([^,}]*\).*/\1/p" <<<"$1"
}
first=$(field "$(head -n 1 run/metrics.jsonl)" loss)
last=$(field "$(tail -n 1 run/metrics.jsonl)" loss)
check "loss falls" awk "BEGIN {exit !($last < $first)}"

# The same bits: run again, and with one thread.
"$LATHE" train run.yaml --set run=again --set threads=1 2>/dev/null
bits()
{
    sed -E 's/"(loss_tokens_per_s|real_tokens_per_s|slots_per_s|step_ms|data_ms|compute_ms|update_ms|memory_bytes|mfu)": [^,}]*,? ?//g' "$1"
}
check "one thread gives the same bits" diff <(bits run/metrics.jsonl) <(bits again/metrics.jsonl)
check "and the same model" cmp run/model/model.safetensors again/model/model.safetensors

# The line of an epoch, where rows are padded to 32: the mean loss of its targets, and real
# tokens a second, which are those of the file in the time of its steps. Slots are more.
"$LATHE" train run.yaml --set run=padded --set data.pack=false 2>/dev/null
grep '^Epoch ' padded/log.txt >epochs.txt
for epoch in 1 2; do
    check "the line of epoch $epoch" grep -qxE \
        "Epoch $epoch/2 \\| loss=[0-9]+\\.[0-9]{4} \\| epoch_time=[0-9]+\\.[0-9]{2}s \\| tokens/s=[0-9]+\\.[0-9]" \
        <(sed -n "${epoch}p" epochs.txt)
done
check "a line for each epoch" [ "$(wc -l <epochs.txt)" = 2 ]
# 40 rows of which 3 make a step: 14 steps an epoch.
sed -n 15,28p padded/metrics.jsonl | while read -r line; do
    for key in loss n_targets real_tokens_per_s slots_per_s step_ms; do
        printf '%s ' "$(field "$line" $key)"
    done
    echo
done | awk '{ t += $2; l += $1 * $2; ms += $5; real += $3 * $5; slots += $4 * $5 }
    END { printf "%.4f %.1f %.1f %.1f\n", l / t, real / ms, real / 1000, slots / 1000 }' >sums.txt
read -r loss speed n_real n_slots <sums.txt
said=$(sed -n '2s/.*tokens.s=//p' epochs.txt)
n_tokens=$(($(tr -cd , <train.jsonl | wc -c) + 40))
near()
{
    awk "BEGIN {exit !($1 > ($2) * 0.999 && $1 < ($2) * 1.001)}"
}
check "its loss is that of the steps, by targets ($loss)" grep -q "loss=$loss " <(tail -n 1 epochs.txt)
check "its tokens are the real ones ($said, $speed)" near "$said" "$speed"
check "which are those of the file ($n_real, $n_tokens)" near "$n_real" "$n_tokens"
# Passes are of two rows, so the last of a step may have an empty one.
n_rows=$((14 * 4 - 2))
check "slots are rows of 32 ($n_slots)" near "$n_slots" "$n_rows * 32"

# A run by steps ends in the middle of its data, whatever comes behind: here a row with
# more targets than any before it.
printf '{"input_ids": [2, 3, 4]}\n' >short-long.jsonl
echo "{\"input_ids\": [2$(printf ', 5%.0s' $(seq 100))]}" >>short-long.jsonl
"$LATHE" train run.yaml --set run=one --set train.epochs=0 --set train.steps=1 \
    --set train.batch_rows=1 --set data.train=short-long.jsonl --set data.shuffle=false \
    --set data.row_tokens=128 --set data.pack=false 2>/dev/null
check "a run by steps ends in the middle of its data" [ $? = 0 ]

# Of a run by steps the line of an epoch says how many its steps begin: 2 rows a step of 4
# are 2 steps, so 7 steps begin 4 epochs and end 3.
head -n 4 train.jsonl >four.jsonl
"$LATHE" train run.yaml --set run=steps --set train.epochs=0 --set train.steps=7 \
    --set train.batch_rows=2 --set data.train=four.jsonl --set data.pack=false 2>/dev/null
check "epochs that the steps begin are counted" \
    [ "$(grep -o '^Epoch [0-9/]*' steps/log.txt | cut -c7- | tr '\n' ' ')" = '1/4 2/4 3/4 ' ]

# With a share held out, each list shows the first rows that are in it, and no others.
"$LATHE" train run.yaml --set run=share --set data.eval=[] --set data.eval_share=0.25 --dry-run \
    2>/dev/null >plan
check "a plan lists eight rows of each part" [ "$(grep -c '^    row ' plan)" = 16 ]
check "which have tokens" [ "$(grep -cE '^    row [0-9]+ +[0-9]+ tokens' plan)" = 16 ]
check "no row is in both" [ "$(grep -oE '^    row [0-9]+' plan | sort | uniq -d | wc -l)" = 0 ]

# What is tried is asked as the rows did: a template with its fields, not a chat.
head -n 8 "$demo/train.jsonl" >asked.jsonl
cat >asked.yaml <<EOF
model: $demo/model
run: asked
data: {train: asked.jsonl, template: "It's {question}\nA: ", response: answer, ignore: [id]}
train: {steps: 1, batch_rows: 1, save_dtype: f32}
EOF
"$LATHE" train asked.yaml 2>log
check "the prompt is that of the rows" \
    grep -qxF "Try it:   lathe generate asked/model --prompt \$'It\\'s {question}\nA: '" log

# train.save_dtype: the numbers of the file; f32 are those that were trained.
check "a model in f32" bash -c "'$LATHE' inspect asked/model | grep -q 'f32'"
for dtype in bf16 f16; do
    "$LATHE" train run.yaml --set run=$dtype --set train.steps=2 --set train.save_dtype=$dtype 2>/dev/null
    check "model and best model in $dtype" bash -c \
        "for m in model best; do '$LATHE' inspect $dtype/\$m | grep -q '$dtype' || exit 1; done"
done

# The tuned model is a model like the one it came from.
check "config is carried over" cmp "$model/config.json" run/model/config.json
before=$("$LATHE" score "$model" --tokens eval.jsonl --json | sed -n 's/^{"loss": \([0-9.]*\),.*/\1/p')
after=$("$LATHE" score run/model --tokens eval.jsonl --json | sed -n 's/^{"loss": \([0-9.]*\),.*/\1/p')
check "the tuned model scores better ($before, $after)" awk "BEGIN {exit !($after < $before)}"
evaluated=$(field "$(tail -n 1 run/metrics.jsonl)" eval_loss)
check "its score is the last held-out loss" \
    awk "BEGIN {d = ($after) - ($evaluated); exit !(d * d < 1e-10)}"
check "inspect tells what it is" bash -c "'$LATHE' inspect run/model | grep -q 'Gemma 4, '"
check "inspect tells of the run" bash -c "'$LATHE' inspect run | grep -q 'run folder, $steps steps'"

# Frozen tensors keep their bits.
"$LATHE" train run.yaml --set run=frozen --set 'train.freeze=["*embed_tokens_per_layer*", "nothing*"]' 2>log
check "a pattern that fits nothing is noted" grep -q 'no tensor matches "nothing\*"' log
"$LATHE" inspect frozen/model/model.safetensors >/dev/null
check "the frozen run is a model" [ $? = 0 ]

# Dry run: tells the plan, writes nothing.
"$LATHE" train run.yaml --set run=dry --dry-run 2>log >plan
check "a dry run ends well" [ $? = 0 ]
check "it prints parameters" grep -Eq '^  trained +[0-9,]+  \(' plan
check "memory by purpose" bash -c "for p in weights gradients moments activations data; do grep -Eq \"^  \$p +[0-9.]+ [KMG]?i?B\" plan || exit 1; done"
check "operations and time" bash -c "grep -Eq '^  FLOPs a token +[0-9]' plan && grep -Eq '^  time +[0-9]' plan"
check "and what becomes of rows" grep -Eq '^    row 1 +11 tokens, 10 with loss$' plan
check "and writes nothing" [ ! -e dry ]
check "and says so" grep -q '^Dry run: .* nothing was trained or written$' log
"$LATHE" train run.yaml --set run=dry --set data.cache=tokens --dry-run >plan 2>log
check "but the token cache, which it names" grep -q '^Dry run: .* nothing was trained; the token cache was written to tokens$' log
"$LATHE" train run.yaml --set run=dry --set train.epochs=0 --set train.steps=1 --set train.batch_rows=1 --dry-run >plan 2>log
check "one step of one row is no plural" grep -q '^1 step of 1 row of [0-9]* tokens, 1 row a pass' log
check "and one figure of memory" [ "$(sed -n 's/^.* trained; \(.*\) planned$/\1/p' log)" = "$(sed -n 's/^  planned  *\([0-9.]* [A-Za-z]*\)  .*/\1/p' plan)" ]
"$LATHE" train run.yaml --dry-run 2>log >plan
check "a dry run tells of a folder in the way" grep -q 'would be refused: run folder run exists' log
"$LATHE" train run.yaml --set run=dry --dry-run 2>log >plan
check "and tells the steps" grep -q "$steps steps of 3 rows" log
finish
