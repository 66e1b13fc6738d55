"""T5 attention in NumPy, reading the tensors of a converted checkpoint.

T5 folds the 1/sqrt(d) into the initialisation of q, so the scores are NOT scaled here.
Relative position = key position - query position (memory minus context).
Masks are 1 for tokens that exist, as the tokenizer gives them.
"""
import math

import numpy as np

NEG = np.float32(np.finfo(np.float32).min)


def rms_norm(x, weight, eps=1e-6):
    return x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + eps) * weight


def bucket(rel, bidirectional, num_buckets=32, max_distance=128):
    """relative position -> bucket number, half of the buckets exact, half logarithmic"""
    out = np.zeros_like(rel)
    n = num_buckets
    if bidirectional:
        n //= 2
        out = out + (rel > 0) * n
        rel = np.abs(rel)
    else:
        rel = -np.minimum(rel, 0)
    exact = n // 2
    far = exact + (np.log(np.maximum(rel, 1) / exact) / math.log(max_distance / exact) * (n - exact)).astype(rel.dtype)
    return out + np.where(rel < exact, rel, np.minimum(far, n - 1))


class T5Attention:
    """prefix: e.g. 'decoder.block.0.layer.0.SelfAttention'.  Weights are [out, in], no biases."""

    def __init__(self, tensors, prefix, n_heads, causal=False):
        self.wq, self.wk, self.wv, self.wo = (np.asarray(tensors[f"{prefix}.{n}.weight"], np.float32) for n in "qkvo")
        self.table = tensors.get(f"{prefix}.relative_attention_bias.weight")     # [buckets, heads], first block only
        self.h, self.causal = n_heads, causal

    def position_bias(self, tq, tk):
        ctx = np.arange(tk - tq, tk)[:, None]
        rel = np.arange(tk)[None, :] - ctx
        ids = bucket(rel, bidirectional=not self.causal, num_buckets=self.table.shape[0])
        return np.transpose(self.table[ids], (2, 0, 1))[None]                    # [1, h, tq, tk]

    def _heads(self, x, w):
        y = x @ w.T
        return y.reshape(*y.shape[:2], self.h, -1).transpose(0, 2, 1, 3)

    def __call__(self, x, memory=None, keep=None, bias=None, past=None):
        """
        x [B, tq, D]; memory [B, tk, D] for cross attention; keep [B, tk];
        bias from the first block (None there); past (k, v) of earlier tokens.
        -> output, bias, (k, v)
        """
        src = x if memory is None else memory
        q, k, v = self._heads(x, self.wq), self._heads(src, self.wk), self._heads(src, self.wv)
        if past is not None:
            k = np.concatenate([past[0], k], 2)
            v = np.concatenate([past[1], v], 2)
        tq, tk = q.shape[2], k.shape[2]
        if bias is None:
            bias = np.zeros((1, self.h, tq, tk), np.float32) if self.table is None else self.position_bias(tq, tk)
        s = np.einsum("bhqd,bhkd->bhqk", q, k) + bias

        seen = np.ones((1, 1, tq, tk), bool)
        if self.causal:
            seen = seen & np.tri(tq, tk, tk - tq, dtype=bool)
        if keep is not None:
            seen = seen & (np.asarray(keep)[:, None, None, :] > 0)
        s = np.where(seen, s, NEG)
        s = np.exp(s - s.max(-1, keepdims=True))
        p = s / s.sum(-1, keepdims=True)
        y = np.einsum("bhqk,bhkd->bqhd", p, v).reshape(x.shape[0], tq, -1)
        return y @ self.wo.T, bias, (k, v)


class T5EncoderNP:
    def __init__(self, tensors, n_layers, n_heads):
        self.t, self.n = tensors, n_layers
        self.att = [T5Attention(tensors, f"encoder.block.{i}.layer.0.SelfAttention", n_heads) for i in range(n_layers)]

    def __call__(self, ids, keep):
        x, bias = self.t["shared.weight"][ids], None
        for i, att in enumerate(self.att):
            p = f"encoder.block.{i}"
            y, bias, _ = att(rms_norm(x, self.t[f"{p}.layer.0.layer_norm.weight"]), keep=keep, bias=bias)
            x = x + y
            h = rms_norm(x, self.t[f"{p}.layer.1.layer_norm.weight"])
            h = np.maximum(h @ self.t[f"{p}.layer.1.DenseReluDense.wi.weight"].T, 0)
            x = x + h @ self.t[f"{p}.layer.1.DenseReluDense.wo.weight"].T
        return rms_norm(x, self.t["encoder.final_layer_norm.weight"])
