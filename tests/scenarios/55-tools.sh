#!/usr/bin/env bash
# convert, export, doctor and plot, as a user calls them, with right and with wrong input.
. "$(dirname "$0")/../support/scenario.sh"
export XDG_CACHE_HOME=$work/cache LC_ALL=C COLUMNS=90

# C14: a copy in a type that holds all values scores each token the same, to the last digit.
echo '{"input_ids": [2, 10, 11, 12, 13, 40, 41, 7]}' >rows.jsonl
for model in "$golden/gemma3-tiny" "$golden/gemma4-e2b-tiny" "$golden/gemma4-e2b-tiny-nested"; do
    name=$(basename "$model")
    "$LATHE" score "$model" --tokens rows.jsonl --json --per-token >before.json 2>/dev/null
    check "$name converts" bash -c "'$LATHE' convert '$model' '$name' --dtype f32 >said 2>/dev/null"
    "$LATHE" score "$name" --tokens rows.jsonl --json --per-token >after.json 2>/dev/null
    check "$name scores each token the same" cmp before.json after.json
done
check "convert says what it wrote" grep -q '^gemma4-e2b-tiny-nested: Gemma 4, .* parameters, f32, ' said
"$LATHE" convert "$demo/model" demo >/dev/null
check "a copy in the same type is the same file" cmp "$demo/model/model.safetensors" demo/model.safetensors
check "with its tokenizer" cmp "$demo/model/tokenizer.json" demo/tokenizer.json
"$LATHE" convert "$demo/model" wide --dtype f32 >/dev/null
"$LATHE" convert wide narrow --dtype bf16 >/dev/null
check "bf16 comes back from f32" cmp "$demo/model/model.safetensors" narrow/model.safetensors

refused "convert wants two paths" 2 "expected a model and a folder to write" "$LATHE" convert wide
refused "no such model" 3 "nowhere: no such file or folder" "$LATHE" convert nowhere x
refused "a folder without a name" 2 "has an empty name" "$LATHE" convert wide ""
ln -s nowhere dangling
refused "a link to nothing" 2 "dangling: is a link" "$LATHE" convert wide dangling
refused "a folder that is there" 2 "exists and is not empty" "$LATHE" convert wide narrow
refused "a file in the way" 2 "said" "$LATHE" convert wide said
refused "into itself" 2 "wide/f16 lies in wide" "$LATHE" convert wide wide/f16
refused "no such type" 2 "--dtype f64: expected f32, bf16 or f16" "$LATHE" convert wide x --dtype f64
refused "not a model" 3 "not a GGUF file" "$LATHE" convert rows.jsonl x
mkdir empty
refused "a folder without a model" 3 "no config.json in this folder" "$LATHE" convert empty x
refused "no such adapter" 3 "none" "$LATHE" convert wide x --adapter none
refused "a limit on the size of files" 4 "File too large" \
    bash -c "ulimit -f 500; exec '$LATHE' convert wide x"
check "nothing was written" [ ! -e x ]
check "nor in part" [ -z "$(ls -d x.partial* 2>/dev/null)" ]

# A run, to be exported and drawn.
head -n 12 "$demo/train.jsonl" >train.jsonl
head -n 4 "$demo/eval.jsonl" >eval.jsonl
cat >run.yaml <<END
model: $demo/model
run: runs/a
data:
  train: train.jsonl
  eval: eval.jsonl
  format: instruction
  template: "Question: {question}\nAnswer: "
  response: answer
  row_tokens: 256
train: {steps: 4, batch_rows: 2, optimizer: {lr: 1.0e-3}}
eval: {every_steps: 2}
END
"$LATHE" train run.yaml 2>/dev/null
check "a run ends well" [ $? = 0 ]
check "its best model is exported" bash -c "'$LATHE' export runs/a best >said"
check "it is the one of the run" cmp runs/a/best/model.safetensors best/model.safetensors
check "the latest is exported" bash -c "'$LATHE' export runs/a latest --latest >/dev/null"
check "it is the one after the last step" cmp runs/a/model/model.safetensors latest/model.safetensors
"$LATHE" score best --text "Tom has 5 apples." --json >/dev/null
check "what was exported is a model" [ $? = 0 ]
refused "export of no run" 3 "no such run folder" "$LATHE" export runs/none x
refused "export of a model" 2 "lathe convert copies models" "$LATHE" export wide x
refused "convert of a run" 2 "use lathe export runs/a x" "$LATHE" convert runs/a x
refused "export into the run" 2 "lies in runs/a" "$LATHE" export runs/a runs/a/x
refused "no adapter to merge" 2 "there is no adapter to merge" "$LATHE" export runs/a x --merge
refused "both at once" 2 "exclude each other" "$LATHE" export runs/a x --best --latest
mkdir early && cp runs/a/run.yaml early
refused "a run without a result" 3 "no tuned model in it" "$LATHE" export early x
refused "nor a best one" 3 "no best model" "$LATHE" export early x --best

# plot: in the terminal, as a picture, as a table; runs in progress; wrong paths.
"$LATHE" plot runs/a >drawn.txt
check "curves are drawn" grep -q '^\*\* runs/a: loss ' drawn.txt
check "with held-out losses" grep -q 'held-out loss .* at step ' drawn.txt
check "in ASCII where the locale says nothing else" bash -c "! grep -q '[^ -~]' drawn.txt"
LC_ALL=C.UTF-8 "$LATHE" plot runs/a >drawn8.txt
check "in braille where it does" grep -q $'\xe2\xa0\|\xe2\xa1\|\xe2\xa2' drawn8.txt
"$LATHE" plot runs/a --svg a.svg --csv a.csv --smooth 2
check "a picture is written" grep -q '</svg>' a.svg
check "and a table" [ "$(wc -l <a.csv)" = 3 ]
# More steps than a curve has points: a table has them all, and their speed.
for step in $(seq 800); do
    echo "{\"step\": $step, \"loss\": 2.5, \"real_tokens_per_s\": 100}"
done >long.jsonl
"$LATHE" plot long.jsonl --csv long.csv
check "a table has a row for each step" [ "$(wc -l <long.csv)" = 801 ]
check "with its speed" [ "$(tail -n 1 long.csv)" = '800,,,2.5,,100' ]
"$LATHE" plot long.jsonl --csv long.csv --smooth 10
check "fewer if asked for" [ "$(wc -l <long.csv)" = 81 ]
cp -r runs/a runs/b
printf '{"step": 5, "loss": 1.' >>runs/b/metrics.jsonl
"$LATHE" plot runs/a runs/b >drawn.txt 2>log
check "a torn last line is no matter" bash -c "grep -q '^++ runs/b: loss ' drawn.txt && [ ! -s log ]"
printf '\nrubbish\n' >>runs/b/metrics.jsonl
"$LATHE" plot runs/b >drawn.txt 2>log
check "rubbish gets a warning" grep -q 'warning: runs/b/metrics.jsonl: 2 lines are not JSON' log
check "a metrics file can be given itself" bash -c "'$LATHE' plot runs/a/metrics.jsonl >/dev/null"
refused "plot of nothing" 3 "runs/none: no such run folder" "$LATHE" plot runs/none
refused "plot of another folder" 3 "no metrics.jsonl in it" "$LATHE" plot wide
: >runs/b/metrics.jsonl
refused "a run without a step" 1 "no step in it yet" "$LATHE" plot runs/b
refused "smoothing by nothing" 2 "expected a number of steps" "$LATHE" plot runs/a --smooth 0
refused "no run" 2 "expected 1 to 16 runs" "$LATHE" plot
refused "a picture that cannot be written" 3 "none/a.svg" "$LATHE" plot runs/a --svg none/a.svg
# What is written costs no run its files, and what is no file stays what it is.
cp -r runs/a before
for file in metrics.jsonl run.yaml log.txt samples.jsonl model/config.json; do
    refused "a table instead of $file" 2 "belongs to the run" "$LATHE" plot runs/a --csv runs/a/$file
done
ln -s runs/a/run.yaml picture.svg
refused "a picture through a link to the run" 2 "belongs to the run" "$LATHE" plot runs/b runs/a --svg picture.svg
check "the run is as before" diff -r before runs/a
mkfifo pipe
timeout 20 cat pipe >piped.csv &
"$LATHE" plot runs/a --csv pipe --smooth 2
wait $!
check "a pipe gets the table" cmp a.csv piped.csv
check "and stays a pipe" [ -p pipe ]

# doctor: exit code 0 on a machine that is fit, the peak kept for later runs.
"$LATHE" doctor >doctor.txt 2>log
check "doctor finds the machine in order" [ $? = 0 ]
check "and says so" grep -q '^Everything is in order' doctor.txt
check "every set of kernels was tested" grep -q 'plain, .* tested, all as defined' doctor.txt
check "the peak is kept" grep -q '"f32_gflops"' cache/lathe/machine.json
"$LATHE" doctor --json >doctor.json
check "doctor as JSON" grep -q '"ok": true' doctor.json
refused "doctor takes no arguments" 2 "no arguments expected" "$LATHE" doctor x
# The real model: the folder scores as the file does; a run on the file writes a whole folder.
gguf=$root/models/gemma-3-270m.gguf
if [ -z "${LATHE_TEST_ALL:-}" ] || [ ! -f "$gguf" ]; then
    ok "Gemma 3 270M from GGUF # skip needs LATHE_TEST_ALL=1 and models/gemma-3-270m.gguf"
    finish
fi
text="Question: Tom has 5 apples and eats 2. How many are left?"
"$LATHE" convert "$gguf" gemma --dtype f32 >/dev/null 2>&1
check "Gemma 3 270M converts" [ $? = 0 ]
"$LATHE" score "$gguf" --text "$text" --json --per-token >before.json
"$LATHE" score gemma --text "$text" --json --per-token >after.json
check "each token scores as in the GGUF file" cmp before.json after.json
cat >real.yaml <<END
model: $gguf
run: runs/real
data: {train: rows.jsonl, format: tokens, row_tokens: 16}
train: {steps: 1, batch_rows: 1, freeze: ["*embed*", "model.layers.?.*", "model.layers.1[0-6].*"]}
END
"$LATHE" train real.yaml >/dev/null 2>log
check "a run on the GGUF file ends well" [ $? = 0 ]
check "its model has a tokenizer" cmp gemma/tokenizer.json runs/real/model/tokenizer.json
check "and answers" bash -c "'$LATHE' generate runs/real/model --prompt 'Hello' --max-tokens 4 >/dev/null 2>&1"
finish
