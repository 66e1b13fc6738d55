"""picollama: read a dict of arrays, write text.  NumPy only, batch of one.

Weight names follow the original release (``layers.0.attention.wq.weight`` ...), every
matrix is (out, in).  Rotary pairs are neighbours (2i, 2i+1), as in the original release.
"""
import numpy as np


class KVStore:
    def __init__(self, n_layers, max_len, n_kv, head):
        self.k = np.zeros((n_layers, max_len, n_kv, head), np.float32)
        self.v = np.zeros_like(self.k)
        self.used = 0


def rms(x, w, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def spin(x, start, theta=10000.0):
    """x (T, heads, head): rotate neighbours by (start + t) * theta^(-2i/head)."""
    T, _, hd = x.shape
    f = theta ** (-np.arange(0, hd, 2) / hd)
    ang = (start + np.arange(T))[:, None] * f
    c, s = np.cos(ang)[:, None], np.sin(ang)[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., 0::2] = a * c - b * s
    y[..., 1::2] = a * s + b * c
    return y


class PicoLlama:
    def __init__(self, weights, cfg):
        self.w, self.cfg = weights, cfg
        self.hd = cfg["dim"] // cfg["n_heads"]

    def new_store(self, max_len=256):
        c = self.cfg
        return KVStore(c["n_layers"], max_len, c["n_kv_heads"], self.hd)

    def attention(self, i, x, store):
        """x (T, dim) are the T newest tokens; older keys come from ``store``."""
        c, w, p = self.cfg, self.w, "layers.%d.attention." % i
        T, past = len(x), store.used
        nh, nkv, hd = c["n_heads"], c["n_kv_heads"], self.hd
        q = (x @ w[p + "wq.weight"].T).reshape(T, nh, hd)
        k = (x @ w[p + "wk.weight"].T).reshape(T, nkv, hd)
        v = (x @ w[p + "wv.weight"].T).reshape(T, nkv, hd)
        q, k = spin(q, past), spin(k, past)
        store.k[i, past:past + T] = k
        store.v[i, past:past + T] = v
        K, V = store.k[i, :past + T], store.v[i, :past + T]
        K, V = np.repeat(K, nh // nkv, axis=1), np.repeat(V, nh // nkv, axis=1)
        s = np.einsum("qhd,khd->hqk", q, K) / np.sqrt(hd)
        future = np.arange(past + T)[None, :] > (past + np.arange(T))[:, None]
        s = np.where(future, -np.inf, s)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        o = np.einsum("hqk,khd->qhd", s, V).reshape(T, nh * hd)
        return o @ w[p + "wo.weight"].T

    def ffn(self, i, x):
        w, p = self.w, "layers.%d.feed_forward." % i
        return (silu(x @ w[p + "w1.weight"].T) * (x @ w[p + "w3.weight"].T)) @ w[p + "w2.weight"].T

    def __call__(self, ids, store):
        w = self.w
        x = w["tok_embeddings.weight"][np.asarray(ids)]
        for i in range(self.cfg["n_layers"]):
            x = x + self.attention(i, rms(x, w["layers.%d.attention_norm.weight" % i]), store)
            x = x + self.ffn(i, rms(x, w["layers.%d.ffn_norm.weight" % i]))
        store.used += len(ids)
        return rms(x, w["norm.weight"]) @ w["output.weight"].T

    def greedy(self, ids, n):
        store, out = self.new_store(len(ids) + n), []
        logits = self(ids, store)
        for _ in range(n):
            nxt = int(logits[-1].argmax())
            out.append(nxt)
            logits = self([nxt], store)
        return out
