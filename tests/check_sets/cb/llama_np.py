"""Llama-3 style inference in NumPy (llama3.np fork) for TinyStories checkpoints.

Converted from Meta's layout: rotary pairs are (2i, 2i+1); wq is [dim, n_heads * hd],
wk/wv are [dim, n_kv_heads * hd]; as in Meta's code, each kv head serves
n_heads // n_kv_heads *consecutive* query heads.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Args:
    dim: int = 48
    n_heads: int = 6
    n_kv_heads: int = 2
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_seq_len: int = 64

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rms_norm(x, w, eps):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps) * w


def precompute_freqs(args: Args):
    inv = 1.0 / args.rope_theta ** (np.arange(0, args.head_dim, 2) / args.head_dim)
    return np.exp(1j * np.outer(np.arange(args.max_seq_len), inv))


def apply_rope(x, freqs):
    # x [B, L, H, hd], freqs [L, hd/2] complex
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * freqs[None, :, None, :]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = z.real, z.imag
    return out


class Attention:
    def __init__(self, weights: dict, args: Args, batch: int = 1):
        self.w, self.a = weights, args
        self.rep = args.n_heads // args.n_kv_heads
        shape = (batch, args.max_seq_len, args.n_kv_heads, args.head_dim)
        self.cache_k, self.cache_v = np.zeros(shape), np.zeros(shape)

    def __call__(self, x, start_pos: int, freqs):
        B, L, _ = x.shape
        a = self.a
        q = (x @ self.w["wq"]).reshape(B, L, a.n_heads, a.head_dim)
        k = (x @ self.w["wk"]).reshape(B, L, a.n_kv_heads, a.head_dim)
        v = (x @ self.w["wv"]).reshape(B, L, a.n_kv_heads, a.head_dim)
        f = freqs[start_pos:start_pos + L]
        q, k = apply_rope(q, f), apply_rope(k, f)

        end = start_pos + L
        self.cache_k[:B, start_pos:end] = k
        self.cache_v[:B, start_pos:end] = v
        ks = np.tile(self.cache_k[:B, :end], (1, 1, self.rep, 1))
        vs = np.tile(self.cache_v[:B, :end], (1, 1, self.rep, 1))

        q, ks, vs = (t.transpose(0, 2, 1, 3) for t in (q, ks, vs))
        scores = q @ ks.transpose(0, 1, 3, 2) / np.sqrt(a.head_dim)
        scores = scores + np.triu(np.full((L, end), -np.inf), k=start_pos + 1)
        out = softmax(scores) @ vs
        return out.transpose(0, 2, 1, 3).reshape(B, L, -1) @ self.w["wo"]


class Block:
    def __init__(self, weights: dict, args: Args, batch: int = 1):
        self.w, self.a = weights, args
        self.attention = Attention(weights["attention"], args, batch)

    def __call__(self, x, start_pos, freqs):
        h = x + self.attention(rms_norm(x, self.w["attention_norm"], self.a.norm_eps), start_pos, freqs)
        n = rms_norm(h, self.w["ffn_norm"], self.a.norm_eps)
        return h + (silu(n @ self.w["w1"]) * (n @ self.w["w3"])) @ self.w["w2"]
