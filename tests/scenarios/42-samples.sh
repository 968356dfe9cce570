#!/usr/bin/env bash
# Answers to fixed prompts during training are those of the model as it is then: the last
# ones are what `lathe generate` says with the tuned model. For text, chat and adapters; and
# a signal ends them.
. "$(dirname "$0")/../support/scenario.sh"

"$LATHE" convert "$demo/model" model --dtype f32 2>/dev/null
for i in $(seq 1 8); do echo "{\"text\": \"Question: What is $i + $i? Answer: $((2 * i)).\"}"; done >text.jsonl
for i in $(seq 1 8); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"What is $i + $i?\"}, {\"role\": \"assistant\", \"content\": \"It is $((2 * i)).\"}]}"
done >chat.jsonl
cat >run.yaml <<EOF2
model: model
run: text
data: {train: text.jsonl, format: text, row_tokens: 64}
train: {steps: 4, batch_rows: 4, optimizer: {lr: 2.0e-3}, schedule: {kind: constant}}
sample: {prompts: ["Question: What is 3 + 3? Answer:", "Tom"], max_tokens: 8, every_steps: 2}
EOF2

# The text of the last answer to the first prompt.
answer()
{
    grep '"prompt": "[QW]' "$1/samples.jsonl" | tail -n 1 | sed 's/.*"text": "\(.*\)"}$/\1/'
}

# What generate says, in the form of a JSON string.
generated()
{
    "$LATHE" generate "$@" --max-tokens 8 --temperature 0 --json 2>/dev/null |
        tr -d '\n' | sed 's/.*"text": "\([^"]*\)".*/\1/'
}

"$LATHE" train run.yaml 2>log
check "a run with prompts ends well" [ $? = 0 ]
check "before, by steps and at the end" \
    [ "$(sed -n 's/^{"step": \([0-9]*\), .*/\1/p' text/samples.jsonl | tr '\n' ' ')" = '0 0 2 2 4 4 ' ]
check "the log has them on one line" [ "$(grep -c '^step 4: sample: ' text/log.txt)" = 2 ]
wanted=$(generated text/model --prompt "Question: What is 3 + 3? Answer:")
check "the last answer is the model's" [ "$(answer text)" = "$wanted" ]
check "the first answer was another" bash -c "! head -n 1 text/samples.jsonl | grep -qF -- '\"$wanted\"'"

"$LATHE" train run.yaml --set run=chat --set data.train=chat.jsonl --set data.format=chat \
    --set 'sample.prompts=["What is 3 + 3?"]' 2>log
check "a chat run ends well" [ $? = 0 ]
wanted=$(generated chat/model --chat "What is 3 + 3?")
check "a prompt is a user's turn" [ "$(answer chat)" = "$wanted" ]

"$LATHE" train run.yaml --set run=lora --set lora.rank=4 --set train.optimizer.lr=0.02 2>log
check "a LoRA run ends well" [ $? = 0 ]
wanted=$(generated model --adapter lora/adapter --prompt "Question: What is 3 + 3? Answer:")
check "answers are those of the adapter" [ "$(answer lora)" = "$wanted" ]

refused "a prompt that is too long" 2 "sample.prompts: number 1 has " \
    "$LATHE" train run.yaml --set run=long --set sample.max_tokens=65536
check "before there is a run folder" [ ! -e long ]

# A signal while it answers: no half answer, and the model of the last update.
prompts=$(for i in $(seq 1 40); do printf '"Tom has %d apples.", ' "$i"; done)
env --default-signal=INT "$LATHE" train run.yaml --set run=stopped --set train.steps=1000 \
    --set "sample.prompts=[$prompts]" --set sample.max_tokens=40 --set sample.every_steps=1 \
    --set train.save_model=true 2>stopped.log &
job=$!
for _ in $(seq 1 400); do
    grep -q '^{"step": 1, ' stopped/samples.jsonl 2>/dev/null && break
    sleep 0.05
done
kill -INT "$job"
wait "$job"
got=$?
check "a signal while it answers: 130 ($got)" [ "$got" = 130 ]
check "and the model is written" grep -q 'after step 1 of 1000; the model of that step is stopped/model' stopped.log
check "every line is whole" [ "$(grep -vc '^{"step": .*"}$' stopped/samples.jsonl)" = 0 ]
finish
