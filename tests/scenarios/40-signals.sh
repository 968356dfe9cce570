#!/usr/bin/env bash
# SIGINT and SIGTERM in each phase of a run, with real processes (C37, G12 without resume):
# the model of the last completed update is written, the exit code is 130 or 1, nothing
# that is half done is left behind.
. "$(dirname "$0")/../support/scenario.sh"

model=$golden/gemma4-e2b-tiny
row=2
for i in $(seq 1 60); do row="$row, $((5 + i * 13 % 240))"; done
line="{\"input_ids\": [$row]}"
for r in $(seq 1 64); do echo "$line"; done >train.jsonl
for r in $(seq 1 2000); do echo "$line"; done >large.jsonl
cat >run.yaml <<EOF2
model: $model
data: {train: train.jsonl, format: tokens, row_tokens: 64, pack: false}
train: {steps: 1000000, batch_rows: 2, optimizer: {lr: 1.0e-3}}
EOF2

# start NAME ARGUMENT...: a run in the background, its lines in NAME.log. A shell's
# background jobs ignore SIGINT; this one must not.
start()
{
    local name=$1
    shift
    env --default-signal=INT "$LATHE" train run.yaml --set "run=$name" "$@" 2>"$name.log" &
    job=$!
}

# seen PATTERN FILE: waits until a line of the file fits, at most 20 seconds.
seen()
{
    for _ in $(seq 1 400); do
        grep -qE "$1" "$2" 2>/dev/null && return 0
        sleep 0.05
    done
    return 1
}

# ended NAME STATUS TEXT: the job has ended with this status and said so.
ended()
{
    wait "$job"
    local got=$?
    if [ "$got" = "$2" ] && grep -qE "^lathe: .*$3" <(tail -n 1 "$1.log") &&
        ! grep -q "^lathe: error" "$1.log"; then
        ok "$1: exits with $2"
    else
        not_ok "$1: exits with $2 (status $got)"
        sed 's/^/    /' "$1.log"
    fi
}

# While it trains: the model is that of the last line of the metrics.
start int
seen '"step": 20,' int/metrics.jsonl
kill -INT "$job"
ended int 130 'stopped by SIGINT after step [0-9]+ of 1000000; the model of that step is int/model'
check "the model can be read" bash -c "'$LATHE' inspect int/model >inspected"
steps=$(tail -n 1 int.log | sed -n 's/.* after step \([0-9]*\) of .*/\1/p')
check "a line for each step" [ "$(wc -l <int/metrics.jsonl)" = "$steps" ]
check "the log says so" grep -q "^Stopped after step $steps of 1000000 by SIGINT, " int/log.txt
check "and why" grep -q '^lathe: stopped by SIGINT' int/log.txt
check "it is not called done" bash -c '! grep -q "^Done" int/log.txt'
check "nothing half written is left" [ "$(ls int | tr '\n' ' ')" = 'log.txt metrics.jsonl model run.yaml ' ]

# Bit for bit the model of a run of so many steps.
start again --set train.schedule.kind=constant
seen '"step": 20,' again/metrics.jsonl
kill -TERM "$job"
ended again 1 'stopped by SIGTERM after step'
"$LATHE" train run.yaml --set run=whole --set train.schedule.kind=constant \
    --set "train.steps=$(tail -n 1 again.log | sed -n 's/.* after step \([0-9]*\) of .*/\1/p')" 2>/dev/null
check "a stopped run has the bits of a shorter one" \
    cmp again/model/model.safetensors whole/model/model.safetensors

# In the first step, which is long: nothing was learned, so nothing is written.
start first --set data.train=large.jsonl --set train.batch_rows=2000 --set train.micro_rows=1
seen 'steps of 2000 rows' first.log
sleep 0.3
kill -INT "$job"
ended first 130 'stopped by SIGINT before the first update: no model was written'
check "and there is no model" [ ! -e first/model ]

# In the evaluation after the second step; that of step 0 shows how long one takes.
start eval --set data.eval=large.jsonl --set eval.every_steps=2
seen '^step 0: held-out' eval.log
sleep 0.3
kill -TERM "$job"
ended eval 1 'stopped by SIGTERM after step 2 of'
check "its step is in the metrics" grep -q '^{"step": 2, ' eval/metrics.jsonl
check "its model is written" [ -s eval/model/model.safetensors ]

# In the evaluation before the first step.
start eval0 --set data.eval=large.jsonl --set eval.every_steps=2
seen 'steps of 2 rows' eval0.log
kill -TERM "$job"
ended eval0 1 'before the first update: no model was written'

# While the data is read, and while the model is (the signal comes before it starts).
start early --set data.train=large.jsonl
sleep 0.02
kill -INT "$job"
wait "$job"
got=$?
check "as early as can be: 130 ($got)" [ "$got" = 130 ]
check "and no model" [ ! -e early/model ]

# While a large file is tokenised.
yes '{"text": "Tom has 5 apples and gives 2 of them to Ann; how many are left, and why?"}' |
    head -n 400000 >text.jsonl
start tokens --set model="$demo/model" --set data.train=text.jsonl --set data.format=text
seen '^Starting fine-tuning' tokens.log
sleep 0.3
kill -TERM "$job"
ended tokens 1 'stopped by SIGTERM before the first update: no model was written'
check "no run folder is left" [ ! -e tokens ]
check "nor a part of the cache" [ -z "$(find .cache -type f 2>/dev/null)" ]

# train.save_model: false is said, and keeps.
start unsaved --set train.save_model=false
seen '"step": 5,' unsaved/metrics.jsonl
kill -INT "$job"
ended unsaved 130 'train.save_model is false'
check "no model where none is wanted" [ ! -e unsaved/model ]

# timeout sends the signal to the process and to its group: that is one signal.
start timed
seen '"step": 5,' timed/metrics.jsonl
kill -TERM "$job"
kill -TERM "$job" 2>/dev/null
ended timed 1 'the model of that step is timed/model'

# A second signal ends a process that hangs: here on a terminal that takes no more lines.
mkfifo full
exec 9<>full
head -c 65536 /dev/zero >&9
env --default-signal=INT "$LATHE" train run.yaml --set run=hung 2>&9 &
job=$!
sleep 0.3
kill -INT "$job"
sleep 0.7
check "it hangs" kill -0 "$job"
kill -INT "$job"
wait "$job"
got=$?
check "the second signal ends it ($got)" [ "$got" = 130 ]
exec 9>&-
finish
