"""char-level sampler with a rolling window of keys and values, pure numpy.

The cache always holds the last `span` positions, oldest first.
"""
import numpy as np


def init_model(vocab, d, h, layers, seed=0):
    r = np.random.default_rng(seed)

    def w(a, b):
        return r.standard_normal((a, b)).astype(np.float32) / np.sqrt(a)

    return {"E": w(vocab, d), "h": h, "L": [{"q": w(d, d), "k": w(d, d), "v": w(d, d), "o": w(d, d),
                                             "up": w(d, 4 * d), "dn": w(4 * d, d)} for _ in range(layers)]}


class Roll:
    """Keys and values of the last `span` steps of one layer: [heads, t, dh]."""

    def __init__(self, heads, dh, span):
        self.span = span
        self.k = np.zeros((heads, 0, dh), np.float32)
        self.v = np.zeros((heads, 0, dh), np.float32)

    def push(self, k, v):
        self.k = np.concatenate([self.k, k], axis=1)[:, -self.span:]
        self.v = np.concatenate([v, self.v], axis=1)[:, : self.span]


def rms(x):
    return x / np.sqrt((x * x).mean() + 1e-6)


def step_attention(p, x, roll, h):
    """One new token x [d] looks at itself and at the cached steps before it."""
    d = x.shape[0]
    q, k, v = ((x @ p[n]).reshape(h, 1, d // h) for n in "qkv")
    roll.push(k, v)
    s = (q @ roll.k.transpose(0, 2, 1)) / np.sqrt(d // h)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    return (s @ roll.v).reshape(d) @ p["o"]


class Sampler:
    def __init__(self, model, chars, span=64):
        self.m, self.chars = model, chars
        d = model["E"].shape[1]
        self.rolls = [Roll(model["h"], d // model["h"], span) for _ in model["L"]]
        self.pos = 0

    def place(self, d):
        i = np.arange(0, d, 2)
        a = self.pos / 10000 ** (i / d)
        out = np.empty(d, np.float32)
        out[0::2], out[1::2] = np.sin(a), np.cos(a)
        return out

    def feed(self, c):
        x = self.m["E"][self.chars.index(c)]
        x = x + self.place(len(x))
        for p, roll in zip(self.m["L"], self.rolls):
            x = x + step_attention(p, rms(x), roll, self.m["h"])
            x = x + np.maximum(rms(x) @ p["up"], 0) @ p["dn"]
        self.pos += 1
        return rms(x) @ self.m["E"].T

    def write(self, prompt, n, temperature=0.8, seed=0):
        rng = np.random.default_rng(seed)
        for c in prompt:
            lg = self.feed(c)
        out = prompt
        for _ in range(n):
            p = np.exp((lg - lg.max()) / temperature)
            c = self.chars[rng.choice(len(p), p=p / p.sum())]
            out += c
            lg = self.feed(c)
        return out
