#!/usr/bin/env python3
"""make-demo-data - the rows of examples/demo, from the GSM8K data set.

The first rows of the train split are what the demo tunes on, the first of the test split
are held out, as they stand. The rest of the train split becomes plain text for
pretraining: question and answer, without the <<...>> calculations and without the mark
"#### " before the result, so that the answer format is something left to learn.

usage: tools/make-demo-data.py GSM8K_FOLDER [TARGET]      (TARGET: examples/demo)
       GSM8K_FOLDER holds train.jsonl, test.jsonl and LICENSE
       (https://github.com/openai/grade-school-math, grade_school_math/data)
"""
import json
import lzma
import pathlib
import re
import shutil
import sys

TUNED_ROWS = 1024
HELD_OUT_ROWS = 128


def plain_text(row):
    """Question and answer of a row as running text."""
    answer = re.sub(r"<<[^>]*>>", "", row["answer"]).replace("#### ", "")
    return row["question"].strip() + "\n" + answer.strip()


def as_lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parent.parent
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else root / "examples/demo"
    train, test = (
        [json.loads(line) for line in (source / name).read_text("utf-8").splitlines()]
        for name in ("train.jsonl", "test.jsonl")
    )
    texts = [{"text": plain_text(row)} for row in train[TUNED_ROWS:]]
    target.mkdir(parents=True, exist_ok=True)
    (target / "train.jsonl").write_text(as_lines(train[:TUNED_ROWS]), "utf-8")
    (target / "eval.jsonl").write_text(as_lines(test[:HELD_OUT_ROWS]), "utf-8")
    packed = lzma.compress(as_lines(texts).encode(), preset=9 | lzma.PRESET_EXTREME)
    (target / "pretrain.jsonl.xz").write_bytes(packed)
    shutil.copyfile(source / "LICENSE", target / "LICENSE")


if __name__ == "__main__":
    main()
