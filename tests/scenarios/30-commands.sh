#!/usr/bin/env bash
# score, tokenize, inspect, settings and help on the demo's model, as a user calls them.
. "$(dirname "$0")/../support/scenario.sh"

model=$demo/model

# tokenize: BOS in front unless told, and back again.
ids=$("$LATHE" tokenize "$model" "Hello world! 2 + 2 = 4")
check "BOS comes first" [ "${ids%% *}" = 2 ]
bare=$("$LATHE" tokenize "$model" "Hello world! 2 + 2 = 4" --no-bos)
check "--no-bos leaves it out" [ "2 $bare" = "$ids" ]
text=$("$LATHE" tokenize "$model" --decode "$bare")
check "ids decode to the text" [ "$text" = "Hello world! 2 + 2 = 4" ]
printf 'tab\there, caf\xc3\xa9 \xf0\x9f\x98\x8a\r\n\n  two spaces' >text.txt
"$LATHE" tokenize "$model" --file text.txt --no-bos >ids.txt
"$LATHE" tokenize "$model" --file ids.txt --decode | head -c -1 >back.txt
check "a file comes back byte for byte" cmp text.txt back.txt
refused "ids outside the vocabulary" 2 "expected ids from 0 to" \
    "$LATHE" tokenize "$model" --decode "5 999999"
refused "no tokenizer" 3 "tokenizer.json" "$LATHE" tokenize "$golden/gemma3-tiny" hello

# score: a text, and the same as token rows.
"$LATHE" score "$model" --text "Tom has 5 apples." --json >text.json
check "score of a text" [ $? = 0 ]
row=$("$LATHE" tokenize "$model" "Tom has 5 apples." | tr ' ' ',')
echo "{\"input_ids\": [$row]}" >rows.jsonl
"$LATHE" score "$model" --tokens rows.jsonl --json >rows.json
check "a text scores as its tokens" cmp text.json rows.json
check "json holds the contract's keys" \
    grep -qE '^\{"loss": [0-9.]+, "n_targets": [0-9]+, "rows": \[\{"loss": [0-9.]+, "n_targets": [0-9]+\}\]\}$' rows.json
n=$(grep -oE '"n_targets": [0-9]+' rows.json | head -n 1 | grep -oE '[0-9]+')
check "a target for each token but the first" [ "$n" = "$(($(tr ',' '\n' <<<"$row" | wc -l) - 1))" ]
"$LATHE" score "$model" --tokens rows.jsonl --json --per-token >tokens.json
check "--per-token gives each" \
    [ "$(sed 's/.*"token_loss": \[\([^]]*\)\].*/\1/' tokens.json | tr ',' '\n' | wc -l)" = "$n" ]

# Padding, on either side and of any length, changes nothing (D2, C12).
pads=0,0,0,0,0,0,0
echo "{\"input_ids\": [$pads,$row], \"attention_mask\": [${pads},$(sed 's/[0-9]*/1/g' <<<"$row")]}" >left.jsonl
echo "{\"input_ids\": [$row,$pads], \"attention_mask\": [$(sed 's/[0-9]*/1/g' <<<"$row"),${pads}]}" >right.jsonl
for side in left right; do
    "$LATHE" score "$model" --tokens $side.jsonl --json >$side.json
    check "$side padding scores the same" cmp rows.json $side.json
done

# A row without targets keeps its place.
printf '{"input_ids": [2]}\n{"input_ids": [%s]}\n' "$row" >two.jsonl
check "a row without targets has loss null" \
    bash -c "'$LATHE' score '$model' --tokens two.jsonl --json | grep -q '\"rows\": \[{\"loss\": null, \"n_targets\": 0}, '"

# inspect, settings, help.
check "inspect lists layers" bash -c "'$LATHE' inspect '$model' | grep -q 'layer 5   full'"
check "inspect tells of shared K and V" bash -c "'$LATHE' inspect '$model' | grep -q 'k and v of layer 2'"
check "inspect lists a weight file" bash -c "'$LATHE' inspect '$model/model.safetensors' | grep -q ' tensors, '"
refused "inspect of nothing" 3 "no such file or folder" "$LATHE" inspect nothing
check "the settings page is up to date" bash -c "'$LATHE' settings --markdown | cmp - '$root/docs/settings.md'"
commands=$("$LATHE" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
check "help lists all commands" [ "$(wc -w <<<"$commands")" -ge 11 ]
for command in $commands; do
    "$LATHE" "$command" --help >help.txt
    check "help of $command" grep -q "^usage: lathe $command" help.txt
    check "with examples" grep -q "^  lathe $command" help.txt
    check "within 90 columns" bash -c "! grep -q '.\{91\}' help.txt"
    check "lathe help $command" bash -c "'$LATHE' help $command | cmp - help.txt"
done
check "the version" bash -c "'$LATHE' --version | grep -q '^lathe [0-9]'"
finish
