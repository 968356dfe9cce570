#!/usr/bin/env python3
"""make-demo-tokenizer - the tokenizer of the demo model: Gemma 4's in small.

Trains a byte-pair encoding on the pretraining text of examples/demo and writes
tokenizer.json, tokenizer_config.json and generation_config.json in the form that Gemma 4
has: the same control tokens (at small ids), byte fallback, spaces as U+2581, BOS in
front. Merges stay within words, digits stay single; so cutting the text into words, which
training does and Gemma's own pre-tokeniser does not, makes no difference later.

usage: tools/make-demo-tokenizer.py [TEXT.jsonl.xz [TARGET]]
       (examples/demo/pretrain.jsonl.xz, examples/demo/model)
needs: pip's `tokenizers`, in an environment of its own:
       python3 -m venv ENV && ENV/bin/pip install tokenizers==0.23.3
       ENV/bin/python tools/make-demo-tokenizer.py
"""
import json
import lzma
import pathlib
import sys

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

VOCABULARY = 2048
CHARACTERS = 112  # the most frequent ones get a token, others are spelled in bytes
SPACE = "\u2581"

# Gemma 4's control tokens, in the order of its ids.
CONTROL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
CONTROL += ["<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>"]
CONTROL += ["<|tool_response>", "<tool_response|>", '<|"|>', "<|think|>"]
CONTROL += ["<|channel>", "<channel|>", "<|turn>", "<turn|>", "<|image>", "<|audio>"]
CONTROL += ["<|image|>", "<|audio|>", "<image|>", "<audio|>", "<|video|>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# Runs of newlines, single digits, words and single signs with the space before them.
WORDS = r"\n+|[0-9]|\u2581?[\p{L}']+|\u2581?[^\n0-9\u2581\p{L}']|\u2581+"


def train(texts):
    """Vocabulary and merges, as the `model` part of tokenizer.json."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "isolated")
    printable = [chr(code) for code in range(0x21, 0x7F)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=CONTROL + BYTES,
        initial_alphabet=printable + ["\n", "\t", SPACE],
        limit_alphabet=CHARACTERS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())["model"]


def tokenizer_json(model):
    """tokenizer.json around the model, as Gemma 4 has it."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    flags |= {"normalized": False, "special": True}
    bos = {"SpecialToken": {"id": "<bos>", "type_id": 0}}
    first = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    bos_again = {"SpecialToken": {"id": "<bos>", "type_id": 1}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": content} | flags for i, content in enumerate(CONTROL)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [bos, first],
            "pair": [bos, first, bos_again, second],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": model,
    }


def write(path, value):
    text = json.dumps(value, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", "utf-8")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = [root / "examples/demo/pretrain.jsonl.xz", root / "examples/demo/model"]
    paths[: len(sys.argv) - 1] = map(pathlib.Path, sys.argv[1:3])
    with lzma.open(paths[0], "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    model = train(texts)
    if len(model["vocab"]) != VOCABULARY:
        sys.exit(f"the text gives {len(model['vocab'])} tokens, not {VOCABULARY}")
    paths[1].mkdir(parents=True, exist_ok=True)
    write(paths[1] / "tokenizer.json", tokenizer_json(model))
    names = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk", "mask")}
    config = names | {"model_max_length": 2048, "tokenizer_class": "GemmaTokenizer"}
    write(paths[1] / "tokenizer_config.json", config)
    eos = [1, CONTROL.index("<turn|>")]
    ids = {"bos_token_id": 2, "eos_token_id": eos, "pad_token_id": 0}
    write(paths[1] / "generation_config.json", {"do_sample": True, **ids, "top_k": 64})


if __name__ == "__main__":
    main()
