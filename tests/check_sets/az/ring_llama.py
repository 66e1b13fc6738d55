#!/usr/bin/env python3
"""Mistral-style decoder on the CPU with a fixed-size ring of keys and values.

The ring holds the last `window` tokens.  Keys go into the ring already rotated by their
position in the text; the order of the slots does not matter to the softmax, so nothing
is ever moved.  One token at a time, one text at a time; weights come as a dict of arrays
(already transposed to [in, out]).
"""
from dataclasses import dataclass
import numpy as np


@dataclass(frozen=True)
class Args:
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    hidden: int = 128
    window: int = 16
    vocab: int = 100
    theta: float = 10000.0
    eps: float = 1e-5

    @property
    def head_dim(self):
        return self.dim // self.n_heads


def rmsnorm(x, g, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * g


def silu(x):
    return x / (1.0 + np.exp(-x))


def rotate(x, p, theta):
    """x [heads, d] at position p; pairs are (0,1), (2,3), ... as in the Mistral weights."""
    d = x.shape[-1]
    ang = p * theta ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(ang), np.sin(ang)
    out = np.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * c - x[:, 1::2] * s
    out[:, 1::2] = x[:, 0::2] * s + x[:, 1::2] * c
    return out


class RingAttention:
    def __init__(self, a, w, pre):
        self.a = a
        self.wq, self.wk = w[pre + "wq"], w[pre + "wk"]
        self.wv, self.wo = w[pre + "wv"], w[pre + "wo"]
        shape = (a.window, a.n_kv_heads, a.head_dim)
        self.ring_k = np.zeros(shape)
        self.ring_v = np.zeros(shape)

    def step(self, x, pos):
        """x [dim], the token at position pos (0, 1, 2, ... over the whole text)."""
        a = self.a
        slot = pos % a.window
        filled = min(pos + 1, a.window)
        q = (x @ self.wq).reshape(a.n_heads, a.head_dim)
        k = (x @ self.wk).reshape(a.n_kv_heads, a.head_dim)
        v = (x @ self.wv).reshape(a.n_kv_heads, a.head_dim)
        q = rotate(q, slot, a.theta)
        k = rotate(k, slot, a.theta)
        self.ring_k[slot] = k
        self.ring_v[slot] = v

        group = a.n_heads // a.n_kv_heads
        out = np.empty((a.n_heads, a.head_dim))
        for h in range(a.n_heads):
            keys = self.ring_k[:filled, h // group]
            vals = self.ring_v[:filled, h // group]
            s = keys @ q[h] / np.sqrt(a.head_dim)
            e = np.exp(s - s.max())
            out[h] = (e / e.sum()) @ vals
        return out.reshape(-1) @ self.wo


class Decoder:
    def __init__(self, a, w):
        self.a, self.w = a, w
        self.attn = [RingAttention(a, w, f"l{i}.") for i in range(a.n_layers)]
        self.pos = 0

    def feed(self, token):
        w, a = self.w, self.a
        x = w["emb"][token]
        for i, attn in enumerate(self.attn):
            p = f"l{i}."
            x = x + attn.step(rmsnorm(x, w[p + "n1"], a.eps), self.pos)
            h = rmsnorm(x, w[p + "n2"], a.eps)
            x = x + (silu(h @ w[p + "w1"]) * (h @ w[p + "w3"])) @ w[p + "w2"]
        self.pos += 1
        return rmsnorm(x, w["norm"], a.eps) @ w["head"]


def make_weights(a, seed=3):
    g = np.random.default_rng(seed)

    def mat(i, o):
        return g.normal(0, i ** -0.5, (i, o))

    w = {"emb": g.normal(size=(a.vocab, a.dim)), "norm": np.ones(a.dim), "head": mat(a.dim, a.vocab)}
    kv = a.n_kv_heads * a.head_dim
    for i in range(a.n_layers):
        p = f"l{i}."
        w[p + "n1"], w[p + "n2"] = np.ones(a.dim), np.ones(a.dim)
        w[p + "wq"], w[p + "wk"] = mat(a.dim, a.dim), mat(a.dim, kv)
        w[p + "wv"], w[p + "wo"] = mat(a.dim, kv), mat(a.dim, a.dim)
        w[p + "w1"], w[p + "w3"] = mat(a.dim, a.hidden), mat(a.dim, a.hidden)
        w[p + "w2"] = mat(a.hidden, a.dim)
    return w


if __name__ == "__main__":
    args = Args()
    dec = Decoder(args, make_weights(args))
    tok, text = 1, []
    for _ in range(40):
        tok = int(dec.feed(tok).argmax())
        text.append(tok)
    print(text)
