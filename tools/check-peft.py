#!/usr/bin/env python3
"""check-peft - is an adapter folder written by lathe the same adapter in PEFT, and back?

Loads the base model with transformers and the adapter with peft (f32, eager attention),
insists that every tensor of the folder is used and none is missing, lets lathe score the
same made-up token rows with `--adapter`, and compares. Then it changes the adapter, lets
peft save it, and lets lathe read that.

    python3 -m venv venv
    venv/bin/pip install torch==2.15.0 transformers==5.24.0 peft==0.21.2
    venv/bin/python tools/check-peft.py MODEL runs/x/adapter --lathe build/release/lathe

Run by hand; not part of the tests. Exit status 0: all losses agree.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="base model, a folder in Hugging Face layout")
    parser.add_argument("adapter", help="adapter folder")
    parser.add_argument("--lathe", required=True, help="the program")
    parser.add_argument("--rows", type=int, default=4, help="made-up rows (default 4)")
    parser.add_argument("--limit", type=float, default=1e-4,
                        help="largest relative difference of a row's loss (default 1e-4)")
    return parser.parse_args()


def make_rows(model, n):
    vocabulary = model.get_input_embeddings().num_embeddings
    numbers = random.Random(1)
    return [[2] + [numbers.randrange(3, vocabulary) for _ in range(20 + 7 * i)]
            for i in range(n)]


def reference_losses(model, rows):
    losses = []
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([row])
            logits = model(input_ids=ids).logits[0, :-1].float()
            losses.append(torch.nn.functional.cross_entropy(logits, ids[0, 1:]).item())
    return losses


def lathe_losses(arguments, adapter, rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for row in rows:
            file.write(json.dumps({"input_ids": row}) + "\n")
        file.flush()
        command = [arguments.lathe, "score", arguments.model, "--tokens", file.name, "--json"]
        if adapter:
            command += ["--adapter", adapter]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [row["loss"] for row in json.loads(result.stdout)["rows"]]


def compare(what, expected, found, limit):
    worst = max(abs(a - b) / a for a, b in zip(expected, found))
    mean = sum(expected) / len(expected)
    print(f"{what}: loss {mean:.6f}, largest relative difference {worst:.1e}")
    return worst <= limit


def main():
    arguments = parse_arguments()
    base = AutoModelForCausalLM.from_pretrained(
        arguments.model, dtype=torch.float32, attn_implementation="eager").eval()
    rows = make_rows(base, arguments.rows)
    good = compare("without adapter", reference_losses(base, rows),
                   lathe_losses(arguments, None, rows), arguments.limit)
    with warnings.catch_warnings():
        # peft only warns of tensors that are missing or left over.
        warnings.filterwarnings("error", category=UserWarning)
        model = PeftModel.from_pretrained(base, arguments.adapter, is_trainable=True).eval()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"peft finds {trained} values in the adapter")
    good &= compare("adapter of lathe", reference_losses(model, rows),
                    lathe_losses(arguments, arguments.adapter, rows), arguments.limit)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.02 * torch.randn_like(parameter)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        names = sorted(p.name for p in pathlib.Path(folder).iterdir())
        print("peft saved", ", ".join(names))
        good &= compare("adapter of peft", reference_losses(model, rows),
                        lathe_losses(arguments, folder, rows), arguments.limit)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
