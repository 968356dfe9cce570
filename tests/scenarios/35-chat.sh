#!/usr/bin/env bash
# Conversations from rows to a tuned model: what is shown is what is trained on and what
# is scored (D5, D6, C11, C15, C18).
. "$(dirname "$0")/../support/scenario.sh"

model=$demo/model
export XDG_CACHE_HOME=$work/cache
cat >chat.jsonl <<'EOF'
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " 2 + 2? "}, {"role": "assistant", "content": "4"}]}
{"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "1"}, {"role": "user", "content": "Two?"}, {"role": "assistant", "content": "It is 2.\n"}]}

{"messages": [{"role": "user", "content": "Nobody answers."}]}
{"conversations": [{"from": "human", "value": "Name a fruit."}, {"from": "gpt", "value": "An apple."}]}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "A list"}]}, {"role": "assistant", "content": "<|channel>thought\nhm<channel|>a, b"}]}
EOF

# Rows as they are trained on, in marks when piped.
"$LATHE" tokenize "$model" --show chat.jsonl >shown.txt 2>notes.txt
check "rows are shown" [ $? = 0 ]
cat >wanted.txt <<'EOF'
<bos><|turn>system
Be brief.<turn|>
<|turn>user
2 + 2?<turn|>
<|turn>model
[[4<turn|>]]
EOF
check "a row in its turn format, loss up to the end of the turn" \
    cmp wanted.txt <(sed -n '/^--- row 1 /,/^--- row 2 /p' shown.txt | grep -v '^---')
check "each model turn carries loss" grep -qF '[[It is 2.<turn|>]]' shown.txt
check "a row without an answer is left out" \
    grep -qE '^--- row 3 \(line 4\): .*; no token with loss: left out$' shown.txt
check "a thought that goes is told" grep -qE '^--- row 5 .*thoughts' shown.txt
check "the format was guessed, and that is said" grep -q 'format chat' notes.txt
check "no colour in a pipe" bash -c "! grep -q \$'\x1b' shown.txt"
"$LATHE" tokenize "$model" --show chat.jsonl --set data.loss_on=last-response \
    >last.txt 2>/dev/null
check "only the last turn" bash -c "grep -qF '[[It is 2.<turn|>]]' last.txt && ! grep -qF '[[1<turn|>]]' last.txt"
"$LATHE" tokenize "$model" --show chat.jsonl --set data.row_tokens=20 --rows 1 \
    >cut.txt 2>/dev/null
check "what is cut is shown" grep -qE '^--- row 1 .*longer than row_tokens = 20: cut' cut.txt
if command -v script >/dev/null; then
    script -qec "'$LATHE' tokenize '$model' --show chat.jsonl" /dev/null >colour.txt
    check "colour on a terminal" grep -q $'\x1b\[1;32m4<turn|>' colour.txt
    NO_COLOR=1 script -qec "'$LATHE' tokenize '$model' --show chat.jsonl" /dev/null >plain.txt
    check "NO_COLOR is honoured" grep -qF '[[4<turn|>]]' plain.txt
else
    echo "ok colour on a terminal # skip no program script"
fi

# Scored as shown: the same as token rows made from what is shown.
"$LATHE" tokenize "$model" --show chat.jsonl --per-token 2>/dev/null | awk '
    function flush() {
        if (n) print "{\"input_ids\": [" ids "], \"labels\": [" labels "]}"
        n = 0; ids = labels = ""
    }
    /^---/ { flush(); next }
    $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ {
        ids = ids (n ? ", " : "") $2
        labels = labels (n ? ", " : "") ($3 > 0 ? $2 : -100)
        n++
    }' >tokens.jsonl
check "five rows of tokens" [ "$(wc -l <tokens.jsonl)" = 5 ]
check "exactly one BOS each" [ "$(grep -oE '\[2,|, 2,' tokens.jsonl | wc -l)" = 5 ]
"$LATHE" score "$model" --chat chat.jsonl --json >chat.json 2>/dev/null
check "conversations are scored" [ $? = 0 ]
"$LATHE" score "$model" --tokens tokens.jsonl --json >tokens.json
check "as their tokens are" cmp chat.json tokens.json
check "a row without an answer keeps its place" \
    grep -q '{"loss": null, "n_targets": 0}' chat.json

# Trained on: the loss before the first update is what score says.
cat >run.yaml <<EOF
model: $model
run: run
data: {train: chat.jsonl, format: chat, row_tokens: 64, pack: false}
train:
  steps: 12
  batch_rows: 4
  optimizer: {lr: 3.0e-3}
  schedule: {kind: constant}
EOF
"$LATHE" train run.yaml 2>log
check "a run on conversations ends well" [ $? = 0 ]
loss() { sed -n 's/^{"loss": \([0-9.]*\),.*/\1/p' "$1"; }
first=$(sed -n 's/^{"step": 1,.* "loss": \([0-9.]*\),.*/\1/p' run/metrics.jsonl)
check "its first loss is the score of the model" \
    awk "BEGIN {d = $first / $(loss chat.json) - 1; exit !(d < 1e-5 && d > -1e-5)}"
"$LATHE" score run/model --chat chat.jsonl --run run.yaml --json >tuned.json 2>/dev/null
check "and the tuned model scores better" \
    awk "BEGIN {exit !($(loss tuned.json) < 0.8 * $(loss chat.json))}"

# Rows of the other formats are scored in the format of the run, as the same token rows.
echo '{"question": "2 + 2?", "answer": "It is 4."}' >asked.jsonl
echo '{"prompt": "Question: 2 + 2?\nAnswer: ", "completion": "It is 4."}' >pair.jsonl
cat >asked.yaml <<'EOF'
data:
  format: instruction
  template: "Question: {question}\nAnswer: "
  response: answer
EOF
"$LATHE" tokenize "$model" --show asked.jsonl --run asked.yaml --per-token 2>/dev/null | awk '
    $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ {
        ids = ids sep $2; labels = labels sep ($3 > 0 ? $2 : -100); sep = ", "
    }
    END { print "{\"input_ids\": [" ids "], \"labels\": [" labels "]}" }' >asked-tokens.jsonl
"$LATHE" score "$model" --tokens asked-tokens.jsonl --json >asked-tokens.json
"$LATHE" score "$model" --rows asked.jsonl --run asked.yaml --json >asked.json
check "instruction rows are scored" [ $? = 0 ]
check "as their tokens are" cmp asked-tokens.json asked.json
"$LATHE" score "$model" --rows pair.jsonl --set data.format=prompt-completion --json >pair.json
check "and so does it as prompt and completion" cmp asked-tokens.json pair.json
"$LATHE" score "$model" --rows chat.jsonl --set data.format=chat --json >rows.json 2>/dev/null
check "conversations may be named as rows" cmp chat.json rows.json
refused "--chat in a run of another format" 2 "data.format is instruction: --rows FILE" \
    "$LATHE" score "$model" --chat asked.jsonl --run asked.yaml
refused "--chat with another format set" 2 "data.format is prompt-completion: --rows FILE" \
    "$LATHE" score "$model" --chat pair.jsonl --set data.format=prompt-completion
refused "rows of no format" 2 "--rows: which format?" "$LATHE" score "$model" --rows pair.jsonl
refused "--run without rows" 2 "--run and --set are for --rows and --chat" \
    "$LATHE" score "$model" --text a --run asked.yaml

# Models and formats that do not fit.
refused "turn marks that the vocabulary lacks" 2 "no turn marks of data.chat_format gemma3" \
    "$LATHE" score "$model" --chat chat.jsonl --set data.chat_format=gemma3
mkdir other
cp "$model"/*.json other/
ln -s "$model/model.safetensors" other/model.safetensors
echo "{{ '<|im_start|>' + message['role'] + message['content'] | trim }}<|im_end|>" \
    >other/chat_template.jinja
"$LATHE" score other --chat chat.jsonl --json 2>warned.txt >other.json
check "an unknown template is warned of once" [ "$(grep -c 'warning: .*chat template' warned.txt)" = 1 ]
check "the warning names the difference" grep -q 'has no <|turn>.*has <|im_start|>' warned.txt
check "and the vocabulary's format is used" cmp chat.json other.json

# Broken rows, and wrong use.
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]}' >bad.jsonl
refused "a role that is none" 3 'bad.jsonl:1: column 2: message 2: role "tool"' \
    "$LATHE" score "$model" --chat bad.jsonl
refused "the same when shown" 3 'bad.jsonl:1: column 2: message 2: role "tool"' \
    "$LATHE" tokenize "$model" --show bad.jsonl
echo '{"instruction": "a", "response": "b"}' >unclear.jsonl
refused "a format that no field tells" 2 "does not tell its format" \
    "$LATHE" tokenize "$model" --show unclear.jsonl
"$LATHE" tokenize "$model" --show unclear.jsonl --format instruction \
    --set 'data.template="Q: {instruction}\nA: "' --set data.response=response >told.txt
check "--format tells it" grep -qF '[[ b<eos>]]' told.txt
printf '\n\n{"text": "a"}\r\n' >blank.jsonl
check "blank lines come before the first row" bash -c "'$LATHE' tokenize '$model' --show blank.jsonl 2>&1 | grep -q '^--- row 1 (line 3): '"
refused "a format that is none" 2 "data.format" \
    "$LATHE" tokenize "$model" --show unclear.jsonl --format chats
refused "two inputs" 2 "one of --text, --chat, --rows and --tokens" \
    "$LATHE" score "$model" --chat chat.jsonl --text a
refused "options of --show without it" 2 "are for --show" \
    "$LATHE" tokenize "$model" text --per-token
# The example says what it shows.
(cd "$root" && "$LATHE" tokenize examples/demo/model --show examples/chat.jsonl \
    --run examples/chat.yaml) >example.txt
check "rows of the example" grep -q '^--- rows 24: examples 24, .* with loss [0-9]*$' example.txt
(cd "$root" && "$LATHE" train examples/chat.yaml --dry-run --set run="$work/none") >/dev/null 2>&1
check "the example's run file is in order" [ $? = 0 ]
finish
