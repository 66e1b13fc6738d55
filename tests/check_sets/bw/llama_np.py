"""run.c in NumPy: one token at a time, weights from a llama2.c checkpoint.

Pairs of the rotation are neighbours (0,1), (2,3), ... as in the .bin files.
Everything is float32; the cache is preallocated [layer, seq_len, kv_dim].
"""
from dataclasses import dataclass

import numpy as np


@dataclass
class Config:
    dim: int = 32
    hidden: int = 48
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    vocab: int = 40
    seq_len: int = 16


def rmsnorm(x, w):
    return w * x / np.sqrt((x * x).mean() + 1e-5)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def rotate(x, pos, head_size):
    """x: flat vector of one or more heads."""
    x = x.reshape(-1, head_size // 2, 2)
    f = pos / 10000.0 ** (np.arange(0, head_size, 2) / head_size)
    c, s = np.cos(f), np.sin(f)
    return np.stack((x[..., 0] * c - x[..., 1] * s,
                     x[..., 0] * s + x[..., 1] * c), -1).reshape(-1)


class Transformer:
    def __init__(self, cfg=None, w=None, seed=0):
        self.p = p = cfg or Config()
        self.hs = p.dim // p.n_heads
        self.kv_dim = self.hs * p.n_kv_heads
        self.w = w if w is not None else self.random_weights(seed)
        self.reset()

    def reset(self):
        p = self.p
        self.kc = np.zeros((p.n_layers, p.seq_len, self.kv_dim), np.float32)
        self.vc = np.zeros((p.n_layers, p.seq_len, self.kv_dim), np.float32)

    def random_weights(self, seed):
        p, r = self.p, np.random.default_rng(seed)

        def g(*s):
            return (r.standard_normal(s) / np.sqrt(s[-1])).astype(np.float32)

        L = p.n_layers
        one = np.ones((L, p.dim), np.float32)
        return dict(
            tok=r.standard_normal((p.vocab, p.dim)).astype(np.float32),
            rms_att=one, rms_ffn=one.copy(), rms_final=one[0].copy(),
            wq=g(L, p.dim, p.dim), wk=g(L, self.kv_dim, p.dim),
            wv=g(L, self.kv_dim, p.dim), wo=g(L, p.dim, p.dim),
            w1=g(L, p.hidden, p.dim), w2=g(L, p.dim, p.hidden), w3=g(L, p.hidden, p.dim))

    def forward(self, token, pos):
        p, w, hs = self.p, self.w, self.hs
        group = p.n_heads // p.n_kv_heads
        x = w["tok"][token].copy()
        for l in range(p.n_layers):
            xb = rmsnorm(x, w["rms_att"][l])
            q = rotate(w["wq"][l] @ xb, pos, hs)
            self.kc[l, pos] = rotate(w["wk"][l] @ xb, pos, hs)
            self.vc[l, pos] = w["wv"][l] @ xb
            out = np.empty(p.dim, np.float32)
            for h in range(p.n_heads):
                a, kv = h * hs, (h // group) * hs
                keys = self.kc[l, :pos + 1, kv:kv + hs]
                vals = self.vc[l, :pos + 1, kv:kv + hs]
                att = softmax(keys @ q[a:a + hs] / np.sqrt(hs))
                out[a:a + hs] = att @ vals
            x = x + w["wo"][l] @ out
            xb = rmsnorm(x, w["rms_ffn"][l])
            g = w["w1"][l] @ xb
            x = x + w["w2"][l] @ (g / (1 + np.exp(-g)) * (w["w3"][l] @ xb))
        return w["tok"] @ rmsnorm(x, w["rms_final"])


if __name__ == "__main__":
    t = Transformer()
    tok = 1
    for pos in range(8):
        tok = int(t.forward(tok, pos).argmax())
        print(tok, end=" ")
    print()
