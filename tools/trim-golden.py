#!/usr/bin/env python3
"""Copies the reference numbers of the tiny models into tests/golden, smaller.

usage: tools/trim-golden.py GOLDEN_FOLDER

GOLDEN_FOLDER holds what PyTorch and transformers gave (tests/golden/README.md tells how).
Cases are kept whole; of their tensors, those are dropped that say least for their size.
Only the standard library is needed.
"""
import json
import pathlib
import shutil
import struct
import sys

MAIN = ["gemma4-e2b-tiny", "gemma4-e4b-tiny", "gemma4-31b-tiny", "gemma3-tiny"]
# Case: layers whose gradients are kept whole; the others are checked by sum and norm.
DERIVED = {
    "gemma4-e2b-tiny-packed": (0, 4, 9),
    "gemma3-tiny-packed": (0, 5),
    "gemma4-e2b-tiny-frozen-ple": (4,),
    "gemma4-e2b-tiny-rightpad": (4,),
    "gemma4-e2b-tiny-leftpad": (),
    "gemma4-e2b-tiny-lora": tuple(range(10)),
    "gemma4-e2b-tiny-bf16": (),
    "gemma4-e4b-tiny-bf16": (),
    "gemma3-tiny-bf16": (),
}


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: (info["dtype"], info["shape"], body[slice(*info["data_offsets"])])
        for name, info in header.items()
    }


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [offset, offset + len(raw)],
        }
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(
        struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values())
    )


def keeps(name, layers):
    kind = name.split(".")[0]
    if kind in ("attn", "mlp", "ple", "mask"):
        return False
    if layers is None or kind in ("logits", "loss", "token_loss"):
        return True
    return kind == "grad" and any(f".layers.{n}." in name for n in layers)


def main():
    source = pathlib.Path(sys.argv[1])
    target = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    for case in MAIN + list(DERIVED):
        folder = target / case
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "config_v5.json"):
            shutil.copyfile(source / case / name, folder / name)
        for name in ("input.json", "expected.json"):
            content = json.loads((source / case / name).read_text())
            (folder / name).write_text(json.dumps(content, separators=(",", ":")) + "\n")
        for name in ("model.safetensors", "adapter_config.json", "adapter_model.safetensors"):
            if (source / case / name).exists():
                shutil.copyfile(source / case / name, folder / name)
        tensors = read_safetensors(source / case / "expected.safetensors")
        kept = {k: v for k, v in tensors.items() if keeps(k, DERIVED.get(case))}
        write_safetensors(folder / "expected.safetensors", kept)


if __name__ == "__main__":
    main()
