import numpy as np
from dataclasses import dataclass, field

# small read-only language model without position embeddings (linear biases instead)


@dataclass
class P:
    """parameters of a layer"""
    ln1: np.ndarray
    wqkv: np.ndarray      # [D, 3, H, d]
    wo: np.ndarray        # [H, d, D]
    ln2: np.ndarray
    w1: np.ndarray
    w2: np.ndarray


@dataclass
class State:
    k: list = field(default_factory=list)
    v: list = field(default_factory=list)


def slopes(n):
    # closest power of two first, the rest from every second slope of 2*power
    p = 1 << (n.bit_length() - 1)
    base = [2.0 ** (-8.0 * (i + 1) / p) for i in range(p)]
    more = [2.0 ** (-8.0 * (i + 1) / (2 * p)) for i in range(0, 2 * p, 2)]
    return np.array(base + more[: n - p])


def layernorm(x, g, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    return g * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def attend(x, wqkv, wo, past=None):
    """x [T, D]; causal; a key at distance n gets the bias -slope[h] * n.

    past: (k, v) of earlier tokens, each [S, H, d], or None.
    returns y [T, D], (k, v) of all tokens so far
    """
    q, k, v = np.einsum("td,dchk->cthk", x, wqkv)
    if past is not None:
        k, v = np.concatenate([past[0], k]), np.concatenate([past[1], v])
    T, S = len(q), len(k)
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)[None, :]
    w = np.einsum("thk,shk->hts", q, k) / np.sqrt(q.shape[-1])
    w = w + slopes(q.shape[1])[:, None, None] * (j - i)
    w = np.where(j > i, -np.inf, w)
    w = np.exp(w - w.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    o = np.einsum("hts,shk->thk", w, v)
    return np.einsum("thk,hkd->td", o, wo), (k, v)


class LM:
    def __init__(self, vocab=64, D=36, H=6, layers=2, seed=3):
        r = np.random.default_rng(seed)
        d = D // H
        n = lambda *s: r.normal(0, s[0] ** -0.5, s)
        self.emb = r.normal(0, D ** -0.5, (vocab, D))
        self.layers = [P(np.ones(D), n(D, 3, H, d), r.normal(0, D ** -0.5, (H, d, D)),
                         np.ones(D), n(D, 4 * D), n(4 * D, D)) for _ in range(layers)]
        self.lnf = np.ones(D)

    def __call__(self, ids, state=None):
        x = self.emb[ids]
        new = []
        for n, p in enumerate(self.layers):
            y, kv = attend(layernorm(x, p.ln1), p.wqkv, p.wo, state[n] if state else None)
            new.append(kv)
            x = x + y
            x = x + gelu(layernorm(x, p.ln2) @ p.w1) @ p.w2
        return layernorm(x, self.lnf) @ self.emb.T, new


def perplexity(lm, ids):
    z, _ = lm(ids[:-1])
    z = z - z.max(-1, keepdims=True)
    lp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return np.exp(-lp[np.arange(len(ids) - 1), ids[1:]].mean())


def write(lm, ids, n):
    z, st = lm(np.asarray(ids))
    out = list(ids)
    for _ in range(n):
        out.append(int(z[-1].argmax()))
        z, st = lm(np.asarray(out[-1:]), st)
    return out


if __name__ == "__main__":
    lm = LM()
    print(perplexity(lm, np.arange(20) % 7), write(lm, [1, 2, 3], 8))
