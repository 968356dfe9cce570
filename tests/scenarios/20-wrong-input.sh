#!/usr/bin/env bash
# Wrong input of each kind: one clear line, the right exit code, nothing written.
. "$(dirname "$0")/../support/scenario.sh"

model=$golden/gemma3-tiny
echo '{"input_ids": [2, 10, 11, 12, 13]}' >rows.jsonl
cat >run.yaml <<EOF
model: $model
run: run
data: {train: rows.jsonl, format: tokens, row_tokens: 16}
train: {steps: 1, batch_rows: 1}
EOF
train="$LATHE train run.yaml"

# Command line and settings: 2.
refused "no such command" 2 "did you mean train?" "$LATHE" trian
refused "no such option" 2 "did you mean --dry-run?" $train --dryrun
refused "no run file" 2 "expected one run file" "$LATHE" train
refused "a run file that is not there" 2 "none.yaml" "$LATHE" train none.yaml
refused "unknown setting" 2 "did you mean train.epochs?" $train --set train.epoch=3
printf 'train:\n  epoch: 3\n' >typo.yaml
refused "unknown key, with line and column" 2 "typo.yaml:2:3: unknown setting train.epoch" \
    "$LATHE" train typo.yaml
refused "value out of range" 2 "data.row_tokens: 1 is not within" $train --set data.row_tokens=1
refused "score wants text or tokens" 2 "one of --text, --chat, --rows and --tokens" "$LATHE" score "$model"
refused "rows longer than the model goes" 2 "the model goes to" $train --set data.row_tokens=1048576
refused "everything frozen" 2 "every tensor is frozen" $train --set 'train.freeze=["*"]'
mkdir taken && touch taken/mine
refused "a folder that is no run" 2 "is not a run" $train --set run=taken --overwrite
check "it is untouched" [ -e taken/mine ]

# Models: 3.
refused "no such model" 3 "nowhere: no such model" $train --set model=nowhere
refused "mixture of experts" 3 "experts" $train --set model="$golden/gemma4-moe-tiny"
cp -r "$model" broken && chmod -R u+w broken
head -c 5000 "$model/model.safetensors" >broken/model.safetensors
refused "weights cut off" 3 "broken/model.safetensors" $train --set model=broken
rm -r broken && cp -r "$model" broken && chmod -R u+w broken
sed -i 's/"hidden_size": 64/"hidden_size": 32/; s/"hidden_size": 48/"hidden_size": 32/' broken/config.json
refused "misshapen tensor" 3 "model.embed_tokens.weight" $train --set model=broken
sed -i 's/"model_type": "gemma3_text"/"model_type": "llama"/' broken/config.json
refused "another family" 3 "llama" $train --set model=broken
echo '{' >broken/config.json
refused "broken config.json" 3 "broken/config.json" $train --set model=broken
echo 'GGUF' >bad.gguf
refused "broken GGUF" 3 "bad.gguf" $train --set model=bad.gguf

# Data: 3, with file and line.
refused "no such data" 3 "none.jsonl" $train --set data.train=none.jsonl
: >empty.jsonl
refused "empty data" 3 "empty.jsonl" $train --set data.train=empty.jsonl
printf '{"input_ids": [2, 3, 4]}\n{"input_ids": [2, 3\n' >bad.jsonl
refused "broken row" 3 "bad.jsonl:2" $train --set data.train=bad.jsonl
printf '{"input_ids": [2, 3, 4]}\n\n{"input_ids": [2, 99999]}\n' >bad.jsonl
refused "id outside the vocabulary" 3 "bad.jsonl:3" $train --set data.train=bad.jsonl
echo '{"input_ids": [2, 3, 4], "labels": [1]}' >bad.jsonl
refused "labels of another length" 3 "bad.jsonl:1" $train --set data.train=bad.jsonl
echo '{"ids": [2, 3, 4]}' >bad.jsonl
refused "no input_ids" 3 "bad.jsonl:1" $train --set data.train=bad.jsonl
echo '{"input_ids": [2, 3, 4], "labels": [-100, -100, -100]}' >bad.jsonl
refused "no row with loss (C6)" 3 "no row" $train --set data.train=bad.jsonl

# Rows of text, with the demo's model.
text="$LATHE train text.yaml --dry-run"
cat >text.yaml <<EOF
model: $demo/model
run: run
data:
  train: text.jsonl
  format: instruction
  template: "Context: {context}\nQuestion: {question}\nAnswer: "
  response: answer
train: {steps: 1, batch_rows: 1}
EOF
echo '{"context": "", "question": "1 + 1?", "answer": "2", "source": "book"}' >text.jsonl
refused "a field that is neither used nor ignored (D4)" 3 "source" $text
check "ignored on purpose it is fine" $text --set 'data.ignore=["source"]'
echo '{"context": "", "question": "1 + 1?"}' >text.jsonl
refused "no response" 3 "text.jsonl:1" $text
echo '{"context": "", "question": 7, "answer": "2"}' >text.jsonl
refused "a field that is no text" 3 "text.jsonl:1" $text
refused "a template that does not end" 2 "template" $text --set 'data.template="Q: {question"'
refused "no template" 2 "data.template is missing" $text --set 'data.template=null'

# Rows without a target are told apart from a loss.
printf '{"input_ids": [2, 3, 4]}\n{"input_ids": [2, 3], "labels": [-100, -100]}\n' >two.jsonl
"$LATHE" score "$model" --tokens two.jsonl >scores.txt
check "score of a row without targets" grep -qx "row 2: no targets" scores.txt

# Output that cannot be written: 4.
refused "a full disk behind the output" 4 "standard output: " \
    sh -c '"$1" settings >/dev/full' sh "$LATHE"

# Memory: 4.
refused "a limit that cannot be kept" 4 "the run needs" $train --set memory_limit=1000000
check "nothing was written" [ ! -e run ]
# Where people point by mistake: a run folder, a clone without git-lfs.
mkdir -p a-run pointers
cp -r "$model" a-run/model
refused "a run folder as model" 3 "a-run is a run folder; its model is in a-run/model" \
    "$LATHE" score a-run --text a
cp -r "$model" a-run/best
refused "a run folder with a best model" 3 "held-out loss in a-run/best" \
    "$LATHE" generate a-run/ --chat hi
mkdir -p lora-run/adapter
cp "$golden"/gemma4-e2b-tiny-lora/adapter_* lora-run/adapter
refused "an adapter as model" 3 \
    "lora-run/adapter is an adapter folder; give the model that it was made for, and --adapter lora-run/adapter" \
    "$LATHE" generate lora-run/adapter --chat hi
refused "the run folder of an adapter as model" 3 "and --adapter lora-run/adapter" \
    "$LATHE" generate lora-run --chat hi
refused "a run folder's tokenizer" 3 "its model is in a-run/model" \
    "$LATHE" tokenize a-run a
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n' >pointers/model.safetensors
cp "$demo"/model/*.json pointers/
refused "a git-lfs pointer as weights" 3 "model.safetensors: a git-lfs pointer" \
    "$LATHE" score pointers --text a
cp pointers/model.safetensors pointers/tokenizer.json
refused "a git-lfs pointer as tokenizer" 3 "tokenizer.json: a git-lfs pointer" \
    "$LATHE" tokenize pointers a
cp pointers/model.safetensors model.gguf
refused "a git-lfs pointer as GGUF" 3 "model.gguf: a git-lfs pointer" "$LATHE" inspect model.gguf
finish
