#!/usr/bin/env bash
# lathe generate on the demo's model: prompts, messages, standard input, a conversation on a
# terminal, the same text for the same seed, an end by signal, and wrong input.
. "$(dirname "$0")/../support/scenario.sh"

model=$demo/model
generate()
{
    "$LATHE" generate "$model" "$@" 2>>speed.txt
}

# Greedy text is the same at once and in parts, and says what its ids say.
generate --prompt "Tom has 5 apples." --temperature 0 --max-tokens 12 >text.txt
check "a prompt is gone on from" [ -s text.txt ]
generate --prompt "Tom has 5 apples." --temperature 0 --max-tokens 12 --json >text.json
check "json holds text, ids, end and speeds" \
    grep -qE '^\{"text": ".*", "ids": \[[0-9, ]+\], "end": "(end|max-tokens)", "prompt_tokens": [0-9]+, "prompt_tokens_per_s": [0-9.e+]+, "tokens_per_s": [0-9.e+]+, "cache_bytes": [1-9][0-9]*\}$' text.json
ids=$(sed 's/.*"ids": \[\([^]]*\)\].*/\1/' text.json)
"$LATHE" tokenize "$model" --decode "$ids" >decoded.txt
check "the ids are the text" cmp text.txt decoded.txt
generate --prompt "Tom has 5 apples.$(cat text.txt)" --temperature 0 --max-tokens 5 >rest.txt
generate --prompt "Tom has 5 apples." --temperature 0 --max-tokens 17 >whole.txt
check "two parts are the whole" [ "$(cat text.txt)$(cat rest.txt)" = "$(cat whole.txt)" ]

# Seeds.
generate --prompt "Question:" --seed 3 --max-tokens 30 >a.txt
generate --prompt "Question:" --seed 3 --max-tokens 30 >b.txt
generate --prompt "Question:" --seed 4 --max-tokens 30 >c.txt
check "the same seed, the same text" cmp a.txt b.txt
check "another seed, another text" bash -c '! cmp -s a.txt c.txt'

# Standard input is a message, or with --raw a prompt; BOS stands in front once.
generate --chat "What is 2 + 2?" --temperature 0 --max-tokens 10 >chat.txt
echo "What is 2 + 2?" | generate --temperature 0 --max-tokens 10 >piped.txt
check "standard input is a message" cmp chat.txt piped.txt
echo "Tom has 5 apples." | generate --raw --temperature 0 --max-tokens 12 >raw.txt
check "--raw makes it a prompt" cmp text.txt raw.txt
generate --prompt "Tom has 5 apples." --max-tokens 1 --json >one.json
n=$("$LATHE" tokenize "$model" "Tom has 5 apples." | wc -w)
check "one BOS" grep -q "\"prompt_tokens\": $n," one.json
generate --chat "Hi" --system "Be brief." --max-tokens 1 --json >system.json
generate --chat "Hi" --max-tokens 1 --json >plain.json
check "instructions make the prompt longer" bash -c '[ "$(grep -oE "prompt_tokens\": [0-9]+" system.json | grep -oE "[0-9]+$")" -gt "$(grep -oE "prompt_tokens\": [0-9]+" plain.json | grep -oE "[0-9]+$")" ]'
cat speed.txt >before.txt
generate --chat "Hi" --max-tokens 1 >/dev/null
check "a model without a chat template is told of once" \
    [ "$(grep -c 'no chat template' speed.txt)" = "$(($(grep -c 'no chat template' before.txt) + 1))" ]
generate --prompt "Hi" --max-tokens 1 >/dev/null
check "not for a prompt" \
    [ "$(grep -c 'no chat template' speed.txt)" = "$(($(grep -c 'no chat template' before.txt) + 1))" ]
check "speeds are told" grep -qE '^[0-9]+ tokens read at [0-9.]+ tokens/s, [0-9]+ written at' speed.txt

# Any byte may come by standard input: a NUL neither ends the text nor lets more be read
# than there is.
printf 'abc\0def what' | generate --json --temperature 0 --max-tokens 2 >nul.json
printf 'abc\001def what' | generate --json --temperature 0 --max-tokens 2 >one.json
check "a NUL is a byte of the message" [ -s nul.json -a \
    "$(grep -o 'prompt_tokens": [0-9]*' nul.json)" = "$(grep -o 'prompt_tokens": [0-9]*' one.json)" ]
refused "megabytes of NUL" 3 "context has room" \
    bash -c "head -c 3000000 /dev/zero | '$LATHE' generate '$model' --context 100"

# A conversation: what was said stays, /new forgets it, the end of the input ends it.
if command -v script >/dev/null; then
    printf 'My name is Tom.\nWho am I?\n/new\n/foo\nWho am I?\n/exit\n' >turns.txt
    timeout 60 script -qec "'$LATHE' generate '$model' --temperature 0 --max-tokens 8" \
        /dev/null <turns.txt >talk.txt 2>&1
    check "a conversation ends well" [ $? = 0 ]
    check "it has three answers" [ "$(grep -c 'tokens read at' talk.txt)" = 3 ]
    check "what is no command is not said to the model" \
        grep -q '/foo: no such command; there are /new and /exit' talk.txt
    # Only the new turn is read, and after /new the first one again.
    reads=$(grep -oE '^[0-9]+ tokens read' talk.txt | cut -d' ' -f1 | tr '\n' ' ')
    read -r first second third <<<"$reads"
    check "what has been read is not read again ($reads)" [ "$second" -lt $((first + 25)) ]
    check "and after /new only the first turn" [ "$third" -lt $((first + 5)) ]
else
    echo "ok a conversation on a terminal # skip no program script"
fi

# The context is full: said, not an error.
generate --prompt "Tom" --context 12 --max-tokens 50 --temperature 0.7 >short.txt
check "an answer ends with the context" [ $? = 0 ]
check "and says so" grep -q "cut at the end of the context (12 tokens)" speed.txt

# A signal ends the answer: what there is is there. The likeliest tokens go round in circles
# here, so the answer has no end but that of a context which takes far longer to fill.
cp -r "$model" endless && chmod -R u+w endless
sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 65536/' endless/config.json
env --default-signal=INT "$LATHE" generate endless --prompt "Tom has" --max-tokens 100000 \
    --context 65536 --temperature 0 >long.txt 2>long.err &
job=$!
for _ in $(seq 1 200); do
    [ "$(wc -c <long.txt)" -gt 20 ] && break
    sleep 0.05
done
kill -INT "$job"
wait "$job"
check "SIGINT ends with 130" [ $? = 130 ]
check "the text up to there is there" [ "$(wc -c <long.txt)" -gt 20 ]

# Wrong input.
refused "no model" 2 "expected one model" "$LATHE" generate
refused "two texts" 2 "at most one of --prompt and --chat" "$LATHE" generate "$model" --prompt a --chat b
refused "--raw with --chat" 2 "plain text" "$LATHE" generate "$model" --raw --chat b
refused "--system with --prompt" 2 "plain text" "$LATHE" generate "$model" --prompt a --system b
for option in "--temperature hot" "--temperature -1" "--top-k 1.5" "--top-p 0" "--top-p 2" \
    "--seed -1" "--max-tokens 0" "--context 1" "--context 1000000"; do
    name=${option%% *}
    # shellcheck disable=SC2086
    refused "$option" 2 "$name" "$LATHE" generate "$model" --prompt a $option
done
refused "a text longer than the context" 3 "context has room for 4" \
    "$LATHE" generate "$model" --prompt "one two three four five six" --context 4
refused "a BOS in the text" 3 "BOS token again" "$LATHE" generate "$model" --prompt "<bos>Tom"
refused "empty standard input" 2 "standard input is empty" "$LATHE" generate "$model" </dev/null
refused "no such model" 3 "nothing" "$LATHE" generate nothing --prompt a
refused "no such adapter" 3 "adapter" "$LATHE" generate "$model" --prompt a --adapter nothing
refused "no tokenizer" 3 "tokenizer.json" "$LATHE" generate "$golden/gemma3-tiny" --prompt a
finish
