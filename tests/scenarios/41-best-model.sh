#!/usr/bin/env bash
# Which models a run leaves (D12): the latest, and the one with the lowest held-out loss, by
# numbers of `lathe score`; early stopping; several held-out files; groups; outliers; samples.
. "$(dirname "$0")/../support/scenario.sh"

model=$golden/gemma4-e2b-tiny
# A few rows to be learned by heart, and others that get worse by that.
rows()
{
    for r in $(seq "$1" "$2"); do
        row=2
        for i in $(seq 1 20); do row="$row, $((5 + (r * 31 + i * i * $3) % 240))"; done
        echo "{\"input_ids\": [$row]}"
    done
}
rows 1 4 7 >train.jsonl
rows 50 57 11 >eval.jsonl
rows 1 4 7 >eval-known.jsonl
cat >run.yaml <<EOF2
model: $model
run: run
data: {train: train.jsonl, eval: eval.jsonl, format: tokens, row_tokens: 32}
train: {steps: 30, batch_rows: 4, optimizer: {lr: 1.0e-2}, schedule: {kind: constant}}
eval: {every_steps: 3, at_epoch_end: false}
EOF2

# losses FILE: step and held-out loss of each evaluation
losses()
{
    sed -n 's/^{"step": \([0-9]*\), .*"eval_loss": \([^,]*\),.*/\1 \2/p' "$1"
}

# is_near A B
is_near()
{
    awk "BEGIN {d = ($1) - ($2); exit !(d * d < 1e-10)}"
}

score()
{
    "$LATHE" score "$1" --tokens eval.jsonl --json | sed -n 's/^{"loss": \([0-9.]*\),.*/\1/p'
}

"$LATHE" train run.yaml 2>log
check "the run ends well" [ $? = 0 ]
read -r best_step best_loss <<<"$(losses run/metrics.jsonl | sort -g -k2 | head -n 1)"
read -r last_step last_loss <<<"$(losses run/metrics.jsonl | tail -n 1)"
check "the last model is not the best one ($best_step)" [ "$best_step" -lt "$last_step" ]
check "best/ is the best model" is_near "$(score run/best)" "$best_loss"
check "model/ is the last one" is_near "$(score run/model)" "$last_loss"
check "the summary names both" grep -q "^Best:     run/best (held-out loss .* after step $best_step)" log
"$LATHE" inspect run >inspected
check "inspect tells of the last step" \
    grep -qE "^step $last_step \(epoch [0-9.]+\): loss [0-9.]+$" inspected
check "of the held-out loss" grep -qx "held-out loss $(printf %.4f "$last_loss") after step \
$last_step, lowest $(printf %.4f "$best_loss") after step $best_step" inspected
check "and of both results, without JSON" bash -c "grep -q 'in model/$' inspected &&
    grep -q 'in best/$' inspected && ! grep -q '{' inspected"
check "the better one is to be tried" grep -qx "Try it:   lathe generate run/best" log
check "nothing half written is left" [ "$(ls run | tr '\n' ' ')" = 'best log.txt metrics.jsonl model run.yaml ' ]
check "log.txt begins with the first line" \
    bash -c "head -n 1 run/log.txt | grep -q '^Starting fine-tuning: model=$model, engine=cpu, ranks=1$'"
check "and holds those of the data" grep -q '^train.jsonl: 4 examples' run/log.txt

# While the loss falls the last model is the best one: it is written once.
"$LATHE" train run.yaml --set run=short --set train.steps=3 2>/dev/null
check "best is a link to the last model" [ "$(readlink short/best)" = model ]
check "which is a model" [ -s short/best/model.safetensors ]
"$LATHE" train run.yaml --set run=short --overwrite --set train.steps=3 2>/dev/null
check "a run with a link is replaced" [ $? = 0 ]

# Early stopping: after so many evaluations without a better loss.
"$LATHE" train run.yaml --set run=patient --set eval.patience=2 2>log
check "a patient run ends well" [ $? = 0 ]
check "two evaluations after the best" \
    [ "$(losses patient/metrics.jsonl | tail -n 1 | cut -d' ' -f1)" = $((best_step + 6)) ]
check "and says why" grep -q 'without a better held-out loss (eval.patience)' log
check "best/ is the same" cmp run/best/model.safetensors patient/best/model.safetensors

# No best model where none is wanted, and none where no model is.
"$LATHE" train run.yaml --set run=latest --set eval.save_best=false --set train.steps=3 2>/dev/null
check "eval.save_best: false" [ ! -e latest/best ]
"$LATHE" train run.yaml --set run=none --set train.save_model=false --set train.steps=3 2>/dev/null
check "train.save_model: false" [ ! -e none/best ]

# Each held-out file has its own loss.
"$LATHE" train run.yaml --set run=files --set 'data.eval=[eval.jsonl, eval-known.jsonl]' 2>log
check "losses of files in the log" grep -Eq '^    eval-known.jsonl: [0-9.]+$' log
last=$(tail -n 1 files/metrics.jsonl)
field()
{
    sed -n "s/.*\"$1\": \([0-9.e-]*\).*/\1/p" <<<"$last"
}
check "and in the metrics" is_near "$(field 'eval.jsonl')" "$last_loss"
check "what was learned is lower there" \
    awk "BEGIN {exit !($(field 'eval-known.jsonl') < $(field 'eval.jsonl'))}"

# Groups of tensors: one that has no rate stays; their norms are told.
"$LATHE" train run.yaml --set run=groups --set train.steps=4 --set train.norms_every=2 \
    --set 'train.param_groups=[{match: "*", lr: 0, weight_decay: 0}]' 2>/dev/null
check "norms every second step" [ "$(grep -c '"groups": {"\*": {"grad_norm": [0-9.]*, "update_norm": 0, "weight_norm"' groups/metrics.jsonl)" = 2 ]
check "a rate of 0 trains nothing" is_near "$(score groups/model)" "$(score "$model")"

# A row like no other is left out and named.
for i in $(seq 1 20); do head -n 1 train.jsonl; done >odd.jsonl
echo '{"input_ids": [2, 200, 3, 77, 5, 240, 9, 8, 111, 6], "weight": 3.0}' >>odd.jsonl
for i in $(seq 1 3); do head -n 1 train.jsonl; done >>odd.jsonl
"$LATHE" train run.yaml --set run=odd --set data.train=odd.jsonl --set data.shuffle=false \
    --set data.pack=false --set train.batch_rows=1 --set train.steps=24 \
    --set train.optimizer.lr=1e-3 --set train.outlier_z=8 --set train.outlier_window=10 2>log
check "an outlier is skipped" grep -Eq '^lathe: warning: step 21 skipped \(train.outlier_z\): .*; rows 21 of odd.jsonl$' log
check "and marked" grep -q '"step": 21, .*"skipped": true, "outlier": true' odd/metrics.jsonl
check "no other step is" [ "$(grep -c outlier odd/metrics.jsonl)" = 1 ]
finish
