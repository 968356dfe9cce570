#!/usr/bin/env bash
# Rows of several files through the cache: tokenised once (C20), the same run with and
# without it, damage repaired, broken rows named, long rows cut, dropped or split.
. "$(dirname "$0")/../support/scenario.sh"

model=$golden/gemma3-tiny
export XDG_CACHE_HOME=$work/xdg
rows()
{
    local first=$1 n=$2 i
    for ((i = first; i < first + n; i++)); do
        echo "{\"input_ids\": [2, $((i % 200 + 5)), $((i % 190 + 6)), $((i % 180 + 7))]}"
    done
}
rows 0 40 >a.jsonl
rows 100 30 >b.jsonl
rows 50 10 >held.jsonl
cat >run.yaml <<EOF
model: $model
run: run
data: {train: [a.jsonl, b.jsonl], weights: [2, 0.5], eval: held.jsonl, format: tokens, row_tokens: 16, cache: cache}
train: {steps: 4, batch_rows: 4, save_model: false}
EOF
train="$LATHE train run.yaml --overwrite"

# losses: of all steps, without times
losses()
{
    grep -o '"loss":[^,]*\|"eval_loss":[^,]*' "$1/metrics.jsonl"
}

check "two files with weights" $train --set run=first 2>first.txt
check "the log tells the weight" grep -qF "takes its examples 0.5 times" first.txt
check "three files of tokenised rows" [ "$(ls cache | wc -l)" = 3 ]
check "again, from the cache" $train --set run=second 2>second.txt
check "it says so" [ "$(grep -c 'tokenised by an earlier run' second.txt)" = 3 ]
check "the same losses" cmp <(losses first) <(losses second)
check "and without a cache" $train --set run=third --set data.cache=null 2>/dev/null
check "the same losses once more" cmp <(losses first) <(losses third)
check "and with another number of threads" $train --set run=fourth --set threads=3 \
    --set data.cache=other 2>/dev/null
check "the same tokenised rows" diff -r cache other

for file in cache/*; do
    printf x | dd of="$file" bs=1 seek=300 conv=notrunc 2>/dev/null
done
check "damaged rows are tokenised again" $train --set run=fifth 2>fifth.txt
check "it says why" [ "$(grep -c 'is damaged; the rows of' fifth.txt)" = 3 ]
check "the same losses as ever" cmp <(losses first) <(losses fifth)

# Four at once, with nothing there yet.
rm -r cache
for i in 1 2 3 4; do
    $train --set run=at-once-$i >/dev/null 2>&1 &
done
wait
for i in 1 2 3 4; do
    check "run $i of four at once" cmp <(losses first) <(losses at-once-$i)
done
check "nothing else is left in the cache" [ "$(ls -A cache | wc -l)" = 3 ]

# quiet COMMAND...: without what it prints for people
quiet()
{
    "$@" >/dev/null
}
dry="$train --dry-run"
refused "a cache folder that cannot be" 3 "data.cache: run.yaml: " $dry --set data.cache=run.yaml/x
refused "weights for each file" 2 "data.weights has 2 numbers" $dry --set data.train=a.jsonl

# C19: a file that takes a while shows how far it is, and there is no engine before it has
# been read. Plain lines: the first and the last, and every five seconds between them.
awk 'BEGIN {
    for (i = 0; i < 1800; i++) {
        printf "{\"input_ids\": [2"
        for (k = 0; k < 1000; k++) printf ", %d", 100 + (i + k) % 150
        print "]}"
    }
}' >large.jsonl
check "a large file" quiet $dry --set data.train=large.jsonl --set data.weights=null \
    --set threads=1 --set data.cache=null 2>large.txt
grep -n '^tokenising ' large.txt >shown.txt
check "shows the start" grep -qE '^[0-9]+:tokenising [0-3]/9 MB  large\.jsonl( |$)' \
    <(head -n 1 shown.txt)
check "and the end" grep -qE '^[0-9]+:tokenising 9/9 MB  large\.jsonl  ' <(tail -n 1 shown.txt)
check "in few lines" [ "$(wc -l <shown.txt)" -lt 20 ]
check "before there is an engine" [ "$(tail -n 1 shown.txt | cut -d: -f1)" -lt \
    "$(grep -n '^Engine: ' large.txt | cut -d: -f1)" ]
check "small files show none" bash -c '! grep -q ^tokenising first.txt'

# A share of the rows is held out where no file is.
share="$dry --set data.eval=null --set data.eval_share=0.2"
check "a share is held out" quiet $share 2>share.txt
check "of each file" grep -qF "Held out: 14 of 70 examples" share.txt

# Broken rows.
(rows 0 3 && echo '{"input_ids": 1}' && rows 3 3 && echo '{' && rows 6 3) >bad.jsonl
bad="$dry --set data.train=bad.jsonl --set data.weights=null"
refused "a broken row" 3 "bad.jsonl:4: column 2: input_ids" $bad
refused "one broken row too many" 3 "bad.jsonl:8: column 1" $bad --set data.max_bad_rows=1
# Torn lines and fields that would steer a terminal, as they are shown.
printf '{"text": "a"\n{"text": "b", "\\u001b[31mred": 1}\n' >torn.jsonl
"$LATHE" tokenize "$demo/model" --show torn.jsonl --format text >shown.txt 2>&1
check "a torn line ends in its last column" grep -q 'broken: column 12: not valid JSON' shown.txt
check "what steers a terminal is not shown" bash -c "grep -q 'broken: .*?\[31mred' shown.txt && ! grep -q \$'\033' shown.txt"
for i in 1 2; do
    check "broken rows within the limit ($i)" quiet $bad --set data.max_bad_rows=2 2>bad.txt
    check "each is named ($i)" [ "$(grep -c 'warning: bad.jsonl:[48]: .*left out' bad.txt)" = 2 ]
    check "and they are counted ($i)" grep -qF "2 of 11 rows: broken, left out" bad.txt
done

# Long rows.
text="$LATHE train text.yaml --dry-run"
cat >text.yaml <<EOF
model: $demo/model
run: run
data: {train: text.jsonl, format: text, row_tokens: 8, end: none}
train: {steps: 1, batch_rows: 1}
EOF
echo '{"text": "one two three four five six seven eight nine ten eleven twelve"}' >text.jsonl
echo '{"text": "one"}' >>text.jsonl
check "cut" quiet $text 2>text.txt
check "the cut is counted" grep -qF "1 of 2 rows: longer than data.row_tokens, cut" text.txt
check "dropped" quiet $text --set data.overlong=drop 2>text.txt
check "the drop is counted" grep -qF "text.jsonl: 1 example, " text.txt
check "split" quiet $text --set data.overlong=split 2>text.txt
check "the split is counted" grep -qF "1 of 2 rows: longer than data.row_tokens, split" text.txt
refused "no split of other formats" 2 "data.overlong split is for data.format text" $dry --set data.overlong=split
refused "a template of another format" 2 "data.template is for" $dry --set 'data.template="{x}"'

finish
