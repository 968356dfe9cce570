#!/usr/bin/env python3
"""token_rows - rows of questions and answers as token rows, for compare.sh --real.

Each line of the input has `question` and `answer` (GSM8K); each line of the output has
`input_ids` and `labels`, -100 where a token carries no loss (the question). Tokens are those
of `lathe tokenize`, so that both programs read the same ones.

usage: token_rows.py LATHE MODEL ROWS.jsonl [N] > tokens.jsonl        (N: 32 rows)
"""
import json
import subprocess
import sys

EOS = 1


def tokenize(lathe, model, text):
    done = subprocess.run(
        [lathe, "tokenize", model, "--", text], capture_output=True, text=True, check=True
    )
    return [int(word) for word in done.stdout.replace(",", " ").split()]


def main():
    lathe, model, path = sys.argv[1:4]
    n = int(sys.argv[4]) if len(sys.argv) > 4 else 32
    with open(path, encoding="utf-8") as lines:
        for _, line in zip(range(n), lines):
            row = json.loads(line)
            prompt = f"Question: {row['question']}\nAnswer: "
            n_prompt = len(tokenize(lathe, model, prompt))
            ids = tokenize(lathe, model, prompt + row["answer"]) + [EOS]
            labels = [-100] * n_prompt + ids[n_prompt:]
            print(json.dumps({"input_ids": ids, "labels": labels}))


if __name__ == "__main__":
    main()
