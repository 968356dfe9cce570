#!/usr/bin/env python3
"""gemma3_270m_torch - a whole training step of the Gemma 3 270M shape in PyTorch.

Forward, backward and AdamW in f32 on the CPU, random weights: the same work as `lathe bench`,
and with --json the same members. The model is written out here as PyTorch users would write
it: scaled_dot_product_attention, cross_entropy over the full logits, clip_grad_norm_,
torch.optim.AdamW. Without --data tokens are random and every position carries loss; with it
rows of the file are padded to --tokens, and tokens_per_s counts those that are no padding.

usage: gemma3_270m_torch.py [--rows 1] [--tokens 512] [--steps 4] [--threads 0] [--fused]
                            [--compiled] [--data TOKENS.jsonl] [--json]
needs: pip's `torch` (README.md beside this file)
"""
import argparse
import itertools
import json
import os
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn

D, LAYERS, HEADS, KV_HEADS, HEAD_WIDTH, MLP_WIDTH = 640, 18, 4, 1, 256, 2048
VOCABULARY, WINDOW, EPS = 262144, 512, 1e-6
FULL_EVERY = 6  # five sliding layers, then one that sees everything


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)
        return x * scale * (1.0 + self.weight)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.is_full = (index + 1) % FULL_EVERY == 0
        width = HEADS * HEAD_WIDTH
        kv_width = KV_HEADS * HEAD_WIDTH
        self.q = nn.Linear(D, width, bias=False)
        self.k = nn.Linear(D, kv_width, bias=False)
        self.v = nn.Linear(D, kv_width, bias=False)
        self.o = nn.Linear(width, D, bias=False)
        self.gate = nn.Linear(D, MLP_WIDTH, bias=False)
        self.up = nn.Linear(D, MLP_WIDTH, bias=False)
        self.down = nn.Linear(MLP_WIDTH, D, bias=False)
        self.q_norm, self.k_norm = Norm(HEAD_WIDTH), Norm(HEAD_WIDTH)
        self.norm_in, self.norm_attention = Norm(D), Norm(D)
        self.norm_mlp_in, self.norm_mlp = Norm(D), Norm(D)

    def attention(self, x, tables, mask):
        B, T, _ = x.shape
        q = self.q(x).view(B, T, HEADS, HEAD_WIDTH)
        k = self.k(x).view(B, T, KV_HEADS, HEAD_WIDTH)
        v = self.v(x).view(B, T, KV_HEADS, HEAD_WIDTH).transpose(1, 2)
        cos, sin = tables[self.is_full]
        q = rotate(self.q_norm(q).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(k).transpose(1, 2), cos, sin)
        k = k.expand(-1, HEADS, -1, -1)
        v = v.expand(-1, HEADS, -1, -1)
        is_causal = self.is_full or mask is None
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=None if is_causal else mask, is_causal=is_causal,
            scale=HEAD_WIDTH**-0.5,
        )
        return self.o(out.transpose(1, 2).reshape(B, T, HEADS * HEAD_WIDTH))

    def forward(self, x, tables, mask):
        x = x + self.norm_attention(self.attention(self.norm_in(x), tables, mask))
        y = self.norm_mlp_in(x)
        y = self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y))
        return x + self.norm_mlp(y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, D)
        self.layers = nn.ModuleList(Layer(i) for i in range(LAYERS))
        self.norm = Norm(D)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        T = ids.shape[1]
        tables = [rope_tables(T, theta) for theta in (1.0e4, 1.0e6)]
        mask = None
        if T > WINDOW:
            apart = torch.arange(T)[:, None] - torch.arange(T)[None, :]
            mask = (apart >= 0) & (apart < WINDOW)
        x = self.embed(ids) * D**0.5
        for layer in self.layers:
            x = layer(x, tables, mask)
        return F.linear(self.norm(x), self.embed.weight)


def rope_tables(T, theta):
    rates = theta ** (-torch.arange(0, HEAD_WIDTH, 2).float() / HEAD_WIDTH)
    angles = torch.outer(torch.arange(T).float(), rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def count_flops(model, B, T):
    """6 per matmul parameter and token, 12 per head width, head and visible pair."""
    parameters = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    flops = 6.0 * parameters * B * T
    for layer in model.layers:
        seen = T if layer.is_full else min(T, WINDOW)
        pairs = seen * (seen + 1) / 2 + (T - seen) * seen
        flops += 12.0 * B * HEADS * HEAD_WIDTH * pairs
    return flops


def gemm_gflops(n=2048):
    a, b = torch.randn(n, n), torch.randn(n, n)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return 2.0 * n**3 / best / 1e9


def random_batches(B, T):
    """The same batch each time: (ids, targets, tokens that are no padding)."""
    ids = torch.randint(VOCABULARY, (B, T))
    targets = torch.randint(VOCABULARY, (B, T))
    while True:
        yield ids, targets, B * T


def padded_batches(path, B, T):
    """Rows of the file in turn, each cut or padded on the right to T tokens; targets are the
    labels of the next token, -100 where there is no loss."""
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    rows = itertools.cycle(rows)
    while True:
        ids = torch.zeros(B, T, dtype=torch.long)
        targets = torch.full((B, T), -100)
        n_real = 0
        for b, row in enumerate(itertools.islice(rows, B)):
            tokens = row["input_ids"][:T]
            labels = row.get("labels", row["input_ids"])[:T]
            ids[b, : len(tokens)] = torch.tensor(tokens)
            targets[b, : len(tokens) - 1] = torch.tensor(labels[1:])
            n_real += len(tokens)
        yield ids, targets, n_real


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=0, help="0: one per processor")
    parser.add_argument("--fused", action="store_true", help="AdamW(fused=True)")
    parser.add_argument("--compiled", action="store_true", help="torch.compile")
    parser.add_argument("--data", help="rows with input_ids and labels")
    parser.add_argument("--json", action="store_true", help="one line, as lathe bench")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    B, T = options.rows, options.tokens

    model = Model()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-5, weight_decay=0.01, fused=options.fused or None
    )
    batches = padded_batches(options.data, B, T) if options.data else random_batches(B, T)
    forward = torch.compile(model) if options.compiled else model

    def say(text):
        if not options.json:
            print(text, flush=True)

    say(f"gemma3-270m, {B} x {T} tokens, f32, random weights, AdamW")
    times, counts = [], []
    for i in range(options.steps + 1):  # the first is for warming up
        ids, targets, n_real = next(batches)
        start = time.perf_counter()
        logits = forward(ids)
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))
        del logits
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        del loss
        times.append(time.perf_counter() - start)
        counts.append(n_real)
        note = " (warm-up)" if i == 0 else ""
        say(f"step {i}{note}: {times[-1]:.3f} s, loss {value:.4f}")
    best = min(times[1:])
    reached, peak = count_flops(model, B, T) / best / 1e9, gemm_gflops()
    kind = "compiled" if options.compiled else "eager"
    figures = {
        "engine": f"PyTorch {torch.__version__} {kind}, {torch.get_num_threads()} threads",
        "gemm_peak_gflops": round(peak, 2),
        "step_s": round(best, 4),
        # Rows of a file differ: all steps count. Random ones are alike: the best does.
        "tokens_per_s": round(
            sum(counts[1:]) / sum(times[1:]) if options.data else B * T / best, 2
        ),
        "gflops": round(reached, 2),
        "mfu": round(reached / peak, 4),
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
