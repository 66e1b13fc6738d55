"""Haiku generator: character GRU + nucleus sampling, everything in NumPy (blog, no frameworks).

The network keeps a state h and gives logits for the next character; sampling keeps the smallest
set of characters whose probability exceeds top_p.
"""
import numpy as np


def sig(x):
    return 1.0 / (1.0 + np.exp(-x))


class GRU:
    def __init__(self, V, H, rng):
        u = lambda *s: rng.uniform(-1, 1, s) / np.sqrt(H)
        self.E = u(V, H)
        self.Wz, self.Wr, self.Wh = u(2 * H, H), u(2 * H, H), u(2 * H, H)
        self.out = u(H, V)

    def step(self, ch, h):
        """ch (B,) int, h (B, H) -> logits (B, V), new h (B, H)"""
        x = self.E[ch]
        xh = np.concatenate([x, h], -1)
        z, r = sig(xh @ self.Wz), sig(xh @ self.Wr)
        cand = np.tanh(np.concatenate([x, r * h], -1) @ self.Wh)
        h = (1 - z) * h + z * cand
        return h @ self.out, h


def nucleus(logits, top_p, temp, rng):
    """logits (V,) -> one sampled index"""
    p = logits / temp
    p = np.exp(p - p.max())
    p /= p.sum()
    order = np.argsort(-p)
    cut = np.searchsorted(np.cumsum(p[order]), top_p) + 1
    keep = order[:cut]
    return rng.choice(keep, p=p[keep] / p[keep].sum())


def haiku(net, seed, n, top_p=0.9, temp=0.8, rng=None):
    """seed: list of ints, at least one; returns a list of n sampled character ids"""
    rng = rng or np.random.default_rng()
    h = np.zeros((1, net.E.shape[1]))
    for c in seed:
        logits, h = net.step(np.array([c]), h)
    out = []
    for _ in range(n):
        c = int(nucleus(logits[0], top_p, temp, rng))
        out.append(c)
        logits, h = net.step(np.array([c]), h)
    return out
