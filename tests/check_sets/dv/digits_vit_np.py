"""Tiny ViT on sklearn digits, inference only."""
import numpy as np


def layer_norm(x, eps=1e-6):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def mha(x, w_qkv, w_out, heads):
    """Self-attention over the patches.

    x      (B, N, D)
    w_qkv  (D, 3 * D), timm layout: the columns are [all of q | all of k | all of v], and within
           each of the three, head 0 first, then head 1, ...
    w_out  (D, D), applied from the right on the concatenated heads
    Scale is 1/sqrt(D // heads). Returns (B, N, D).
    """
    B, N, D = x.shape
    d = D // heads
    qkv = (x @ w_qkv).reshape(B, N, heads, 3, d)
    q, k, v = np.moveaxis(qkv, 3, 0)                    # each B, N, heads, d
    q, k, v = (t.transpose(0, 2, 1, 3) for t in (q, k, v))

    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d)
    s -= s.max(-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(-1, keepdims=True)

    o = (p @ v).transpose(0, 2, 1, 3).reshape(B, N, D)
    return o @ w_out


def forward(x, blocks, heads):
    """blocks: list of dicts with w_qkv, w_out, w1, w2; x (B, N, D) -> (B, N, D)"""
    for p in blocks:
        x = x + mha(layer_norm(x), p["w_qkv"], p["w_out"], heads)
        x = x + np.maximum(layer_norm(x) @ p["w1"], 0) @ p["w2"]
    return x
