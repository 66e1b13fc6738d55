#!/usr/bin/env python3
"""Standalone inference for the bacterial promoter LM. Needs numpy and the exported .npz only.

Exported tensors (row-major, as in the training repo):
    tok                      [9, D]
    {i}.norm1 / {i}.norm2    [D]
    {i}.Wqkv.weight          [3D, D]   fused projection: rows 0..D-1 queries, D..2D-1 keys,
                                       2D..3D-1 values; inside each part head 0 first
    {i}.Wqkv.bias            [3D]
    {i}.out.weight           [D, D]
    {i}.fc1.weight [4D, D]   {i}.fc2.weight [D, 4D]
    norm_f [D]               lm_head [9, D]
"""
import argparse
import numpy as np

ALPHABET = {"A": 0, "C": 1, "G": 2, "T": 3, "N": 4, "[": 5, "]": 6, "?": 7, ".": 8}


def rmsnorm(x, g):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * g


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


def rope_tables(L, d, base=10000.0):
    inv = base ** (-np.arange(0, d, 2) / d)
    ang = np.outer(np.arange(L), inv)
    ang = np.concatenate([ang, ang], -1)
    return np.cos(ang), np.sin(ang)


def rope(x, cos, sin):
    """x [L, H, d], first and second half of d form the pairs"""
    h = x.shape[-1] // 2
    rot = np.concatenate([-x[..., h:], x[..., :h]], -1)
    return x * cos[:, None] + rot * sin[:, None]


def self_attention(w, i, x, n_heads):
    """bidirectional, x [L, D]"""
    L, D = x.shape
    d = D // n_heads
    qkv = x @ w[f"{i}.Wqkv.weight"].T + w[f"{i}.Wqkv.bias"]
    qkv = qkv.reshape(L, n_heads, 3, d)
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    cos, sin = rope_tables(L, d)
    q, k = rope(q, cos, sin), rope(k, cos, sin)
    s = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d)
    p = softmax(s)
    y = np.einsum("hij,jhd->ihd", p, v).reshape(L, D)
    return y @ w[f"{i}.out.weight"].T


def mlp(w, i, x):
    h = x @ w[f"{i}.fc1.weight"].T
    h = h / (1.0 + np.exp(-np.clip(h, -60, 60)))
    return h @ w[f"{i}.fc2.weight"].T


def logits(w, ids, n_layers, n_heads):
    x = w["tok"][ids]
    for i in range(n_layers):
        x = x + self_attention(w, i, rmsnorm(x, w[f"{i}.norm1"]), n_heads)
        x = x + mlp(w, i, rmsnorm(x, w[f"{i}.norm2"]))
    return rmsnorm(x, w["norm_f"]) @ w["lm_head"].T


def pseudo_loglik(w, seq, n_layers, n_heads):
    """mean log p of each base with that base hidden"""
    ids = np.array([ALPHABET["["]] + [ALPHABET[c] for c in seq.upper()] + [ALPHABET["]"]])
    total = 0.0
    for pos in range(1, len(ids) - 1):
        masked = ids.copy()
        masked[pos] = ALPHABET["?"]
        p = softmax(logits(w, masked, n_layers, n_heads)[pos])
        total += np.log(p[ids[pos]] + 1e-12)
    return total / (len(ids) - 2)


def variant_effect(w, seq, pos, alt, n_layers, n_heads):
    ids = np.array([ALPHABET[c] for c in seq.upper()])
    ref = ids[pos]
    ids[pos] = ALPHABET["?"]
    p = softmax(logits(w, ids, n_layers, n_heads)[pos])
    return float(np.log(p[ALPHABET[alt]]) - np.log(p[ref]))


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("weights")
    ap.add_argument("fasta")
    ap.add_argument("--layers", type=int, default=6)
    ap.add_argument("--heads", type=int, default=8)
    a = ap.parse_args(argv)
    w = dict(np.load(a.weights))
    for line in open(a.fasta):
        if line.strip() and not line.startswith(">"):
            print("%.4f" % pseudo_loglik(w, line.strip(), a.layers, a.heads))


if __name__ == "__main__":
    main()
