#!/usr/bin/env python
"""bloom_lite: run a BLOOM layer from an .npz checkpoint, numpy only.

Weights (as exported):  query_key_value.weight (3*D, D) interleaved per head as
(n_head, 3, head_dim), dense.weight (D, D), both with bias.
"""
import argparse
import math

import numpy as np


def build_slopes(n_head):
    """Slopes of the ALiBi paper; for n_head not a power of two the missing ones are
    taken from the odd places of the next power of two (as Bloom does)."""
    p2 = 2 ** math.floor(math.log2(n_head))
    base = 2.0 ** (-(2.0 ** -(math.log2(p2) - 3)))
    slopes = [base ** (i + 1) for i in range(p2)]
    if p2 != n_head:
        extra = 2.0 ** (-(2.0 ** -(math.log2(2 * p2) - 3)))
        n_rest = min(p2, n_head - p2)
        slopes += [extra ** i for i in range(1, 1 + 2 * n_rest, 2)]
    return np.array(slopes)


def build_alibi(attention_mask, n_head):
    """attention_mask (B, S) 1 = token.  Returns (B, H, 1, S) position-of-key bias; adding a
    constant to a row does not change its softmax, so the query position is left out."""
    pos = (np.cumsum(attention_mask, axis=-1) - 1) * attention_mask
    return build_slopes(n_head)[None, :, None, None] * pos[:, None, None, :]


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    x = np.exp(x)
    return x / np.sum(x, axis=-1, keepdims=True)


class BloomSelfAttention:
    def __init__(self, weights, n_head):
        self.w = weights
        self.n_head = n_head

    def __call__(self, hidden, attention_mask=None, past=None):
        """hidden (B, T, D); causal.  attention_mask covers past + present, right or left padding.
        Returns output and the new past (k, v), each (B, H, S, d)."""
        B, T, D = hidden.shape
        H, d = self.n_head, D // self.n_head
        fused = hidden @ self.w["query_key_value.weight"].T + self.w["query_key_value.bias"]
        fused = fused.reshape(B, T, H, 3, d)
        q, k, v = (fused[..., i, :].transpose(0, 2, 1, 3) for i in range(3))
        if past is not None:
            k = np.concatenate([past[0], k], axis=2)
            v = np.concatenate([past[1], v], axis=2)
        S = k.shape[2]
        if attention_mask is None:
            attention_mask = np.ones((B, S), dtype=np.int64)
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(d)
        scores = scores + build_alibi(attention_mask, H)
        allowed = np.tril(np.ones((T, S), dtype=bool), k=S - T)[None, None]
        allowed = allowed & (attention_mask[:, None, None, :] > 0)
        scores = np.where(allowed, scores, np.finfo(scores.dtype).min)
        ctx = softmax(scores) @ v
        ctx = ctx.transpose(0, 2, 1, 3).reshape(B, T, D)
        return ctx @ self.w["dense.weight"].T + self.w["dense.bias"], (k, v)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("checkpoint")
    ap.add_argument("--heads", type=int, default=6)
    args = ap.parse_args()
    layer = BloomSelfAttention(dict(np.load(args.checkpoint)), args.heads)
    D = layer.w["dense.weight"].shape[0]
    print(layer(np.zeros((1, 4, D)))[0].shape)


if __name__ == "__main__":
    main()
