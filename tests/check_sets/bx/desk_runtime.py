"""Torch-free runtime of the customs-declaration classifier (NumPy).

Weights come as a flat dict, exported by the training job:

    attn.q   (dim, n_q  * hd)      attn.kv.k (dim, n_kv * hd)
    attn.o   (n_q * hd, dim)       attn.kv.v (dim, n_kv * hd)

Grouped-query attention: n_q / n_kv consecutive query heads share one key/value
head, i.e. query heads 0..g-1 use kv head 0, the next g use kv head 1, and so on.
Causal.
"""
import numpy as np


def rms(x, gain, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def softmax(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def heads_first(x, n):
    b, t, _ = x.shape
    return x.reshape(b, t, n, -1).transpose(0, 2, 1, 3)


def grouped_attention(x, weights, n_q, n_kv):
    b, t, _ = x.shape
    q = heads_first(x @ weights["attn.q"], n_q)
    k = heads_first(x @ weights["attn.kv.k"], n_kv)
    v = heads_first(x @ weights["attn.kv.v"], n_kv)
    g = n_q // n_kv
    if g > 1:
        k, v = (np.tile(a, (1, g, 1, 1)) for a in (k, v))
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    s = np.where(np.tri(t, dtype=bool), s, -np.inf)
    y = softmax(s) @ v
    return y.transpose(0, 2, 1, 3).reshape(b, t, -1) @ weights["attn.o"]


class DeclarationRuntime:
    def __init__(self, weights, n_q=4, n_kv=2):
        self.w, self.n_q, self.n_kv = weights, n_q, n_kv

    def classify(self, x):
        """x: (batch, tokens, dim) -> logits of the tariff chapter at the last token"""
        h = x + grouped_attention(rms(x, self.w["norm"]), self.w, self.n_q, self.n_kv)
        return h[:, -1] @ self.w["head"]


def random_weights(dim=12, hd=5, n_q=4, n_kv=2, classes=9, seed=0):
    r = np.random.default_rng(seed)
    shape = {"attn.q": (dim, n_q * hd), "attn.kv.k": (dim, n_kv * hd), "attn.kv.v": (dim, n_kv * hd),
             "attn.o": (n_q * hd, dim), "head": (dim, classes)}
    w = {name: r.normal(size=s) / np.sqrt(s[0]) for name, s in shape.items()}
    w["norm"] = np.ones(dim)
    return w


if __name__ == "__main__":
    rt = DeclarationRuntime(random_weights())
    print(rt.classify(np.random.default_rng(2).normal(size=(2, 6, 12))).shape)
