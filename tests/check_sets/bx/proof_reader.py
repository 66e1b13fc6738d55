"""Proof-reading model of a publishing house: NumPy port of the torch decoder.

Rotary positions in the half-split layout (as GPT-NeoX): channel i is paired
with channel i + d/2, and the pair turns by  pos * base^(-2i/d).

Local causal attention: with `window` = W a token sees itself and the W - 1
tokens before it, W positions in all.
"""
import numpy as np


def rotate_half(x):
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


class ProofReader:
    def __init__(self, state_dict, n_heads=2, window=3, base=10000.0):
        self.sd = {k: np.asarray(v, np.float64) for k, v in state_dict.items()}
        self.n_heads = n_heads
        self.window = window
        self.base = base

    def turn(self, x):
        t, d = x.shape[-2:]
        inv = self.base ** (-np.arange(0, d, 2) / d)
        angle = np.arange(t)[:, None] * np.repeat(inv, 2)
        return x * np.cos(angle) + rotate_half(x) * np.sin(angle)

    def visible(self, t):
        back = np.arange(t)[:, None] - np.arange(t)[None, :]
        return (back >= 0) & (back <= self.window)

    def attention(self, x):
        b, t, dim = x.shape
        proj = lambda name: (x @ self.sd[name].T).reshape(b, t, self.n_heads, -1).swapaxes(1, 2)
        q, k, v = self.turn(proj("wq")), self.turn(proj("wk")), proj("wv")
        s = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        s[:, :, ~self.visible(t)] = -np.inf
        s = np.exp(s - s.max(axis=-1, keepdims=True))
        s /= s.sum(axis=-1, keepdims=True)
        return (s @ v).swapaxes(1, 2).reshape(b, t, dim) @ self.sd["wo"].T

    def forward(self, x):
        """x (batch, tokens, dim) -> (batch, tokens, dim)"""
        x = x + self.attention(x)
        return x + np.maximum(x @ self.sd["up"].T, 0) @ self.sd["down"].T


def blank_state(dim=16, seed=0):
    g = np.random.default_rng(seed)
    shapes = dict(wq=(dim, dim), wk=(dim, dim), wv=(dim, dim), wo=(dim, dim), up=(2 * dim, dim), down=(dim, 2 * dim))
    return {k: g.normal(size=s) / np.sqrt(s[1]) for k, s in shapes.items()}
