#!/usr/bin/env python3
"""check-transformers - is a model folder written by lathe the same model in transformers?

Loads the folder with transformers (f32, eager attention), insists that no tensor is missing
and none left over, computes the loss of the given texts or of made-up token rows, and, with
--lathe, lets lathe score the same rows and compares.

    python3 -m venv venv
    venv/bin/pip install torch==2.15.0 transformers==5.24.0
    venv/bin/python tools/check-transformers.py runs/x/model --lathe build/release/lathe

Run by hand; not part of the tests. Exit status 0: the model loads and the losses agree.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOWERS = ("vision_tower.", "audio_tower.", "embed_vision.", "embed_audio.")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="folder in Hugging Face layout")
    parser.add_argument("--text", action="append", default=[], help="a row; may be repeated")
    parser.add_argument("--tokens", help="JSON lines with input_ids, instead of texts")
    parser.add_argument("--random", type=int, default=4, metavar="N",
                        help="without texts and tokens: N rows of random tokens (default 4)")
    parser.add_argument("--lathe", help="the program, to compare with")
    parser.add_argument("--limit", type=float, default=1e-4,
                        help="largest relative difference of a row's loss (default 1e-4)")
    return parser.parse_args()


def make_rows(arguments, model):
    """Token ids, one list per row."""
    if arguments.tokens:
        with open(arguments.tokens, encoding="utf-8") as file:
            return [json.loads(line)["input_ids"] for line in file if line.strip()]
    if arguments.text:
        tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        return [tokenizer(text).input_ids for text in arguments.text]
    vocabulary = model.get_input_embeddings().num_embeddings
    numbers = random.Random(1)
    return [[2] + [numbers.randrange(3, vocabulary) for _ in range(20 + 7 * i)]
            for i in range(arguments.random)]


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = sorted(map(str, report.get(kind) or []))
        # Towers that the config leaves out (vision_config null) are no fault of the text.
        names = [name for name in names
                 if kind != "unexpected_keys" or not any(t in name for t in TOWERS)]
        if names:
            sys.exit(f"{folder}: {kind}: {', '.join(names[:5])} ({len(names)})")
    return model.eval()


def score(model, ids):
    """Mean loss over the targets of one row."""
    tokens = torch.tensor([ids])
    with torch.no_grad():
        return model(input_ids=tokens, labels=tokens).loss.item()


def score_with_lathe(program, folder, rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for ids in rows:
            file.write(json.dumps({"input_ids": ids}) + "\n")
        file.flush()
        command = [program, "score", folder, "--tokens", file.name, "--json"]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [row["loss"] for row in json.loads(text)["rows"]]


def main():
    arguments = parse_arguments()
    model = load(arguments.model)
    n_values = sum(parameter.numel() for parameter in model.parameters())
    print(f"{type(model).__name__}, {n_values} parameters, nothing missing or left over")
    rows = make_rows(arguments, model)
    losses = [score(model, ids) for ids in rows]
    if arguments.lathe is None:
        for ids, loss in zip(rows, losses):
            print(f"{len(ids):6d} tokens  loss {loss:.6f}")
        return
    others = score_with_lathe(arguments.lathe, arguments.model, rows)
    worst = 0.0
    for ids, loss, other in zip(rows, losses, others):
        difference = abs(loss - other) / abs(loss)
        worst = max(worst, difference)
        print(f"{len(ids):6d} tokens  transformers {loss:.6f}  lathe {other:.6f}  "
              f"relative difference {difference:.1e}")
    print(f"largest relative difference {worst:.1e}, limit {arguments.limit:.1e}")
    sys.exit(worst > arguments.limit)


if __name__ == "__main__":
    main()
