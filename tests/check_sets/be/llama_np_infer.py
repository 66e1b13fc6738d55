# Minimal llama-2 style inference, numpy only.  Weights are a plain dict:
#   "wq" (dim, Hq*hd)  "wk" (dim, Hkv*hd)  "wv" (dim, Hkv*hd)  "wo" (Hq*hd, dim)
# Meta layout, i.e. rotary pairs are adjacent channels (0,1), (2,3), ...
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms_norm(x, g, eps=1e-5):
    return g * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rope_angles(hd, max_len, base=10000.0):
    inv = 1.0 / base ** (np.arange(0, hd, 2)[: hd // 2] / hd)
    t = np.outer(np.arange(max_len), inv)
    return np.cos(t), np.sin(t)


def rotate_pairs(x, cos, sin):
    # x: (L, H, hd), cos/sin: (L, hd/2)
    even, odd = x[..., 0::2], x[..., 1::2]
    c, s = cos[:, None, :], sin[:, None, :]
    out = np.empty_like(x)
    out[..., 0::2] = even * c - odd * s
    out[..., 1::2] = even * s + odd * c
    return out


class CachedAttention:
    """One layer, one sequence.  Call with the prompt first, then token by token."""

    def __init__(self, weights, n_heads, n_kv_heads, max_len=64):
        self.w = weights
        self.nh, self.nkv = n_heads, n_kv_heads
        self.hd = weights["wq"].shape[1] // n_heads
        self.cos, self.sin = rope_angles(self.hd, max_len)
        self.k_cache = np.zeros((max_len, n_kv_heads, self.hd))
        self.v_cache = np.zeros((max_len, n_kv_heads, self.hd))
        self.pos = 0

    def reset(self):
        self.pos = 0

    def __call__(self, x):
        L = x.shape[0]
        a, b = self.pos, self.pos + L
        if b > len(self.k_cache):
            raise RuntimeError("context window exceeded")
        q = (x @ self.w["wq"]).reshape(L, self.nh, self.hd)
        k = (x @ self.w["wk"]).reshape(L, self.nkv, self.hd)
        v = (x @ self.w["wv"]).reshape(L, self.nkv, self.hd)
        q = rotate_pairs(q, self.cos[a:b], self.sin[a:b])
        self.k_cache[a:b] = rotate_pairs(k, self.cos[a:b], self.sin[a:b])
        self.v_cache[a:b] = v
        self.pos = b

        rep = self.nh // self.nkv
        keys = np.repeat(self.k_cache[:b], rep, axis=1)
        vals = np.repeat(self.v_cache[:b], rep, axis=1)
        att = np.einsum("qhd,khd->hqk", q, keys) / np.sqrt(self.hd)
        hidden = np.triu(np.ones((L, b), dtype=bool), k=a + 1)
        att[:, hidden] = -np.inf
        y = np.einsum("hqk,khd->qhd", softmax(att), vals)
        return y.reshape(L, -1) @ self.w["wo"]


def greedy(layers, norms, emb, prompt, steps):
    out = list(prompt)
    chunk = prompt
    for _ in range(steps):
        h = emb[np.asarray(chunk)]
        for att, g in zip(layers, norms):
            h = h + att(rms_norm(h, g))
        chunk = [int((h[-1] @ emb.T).argmax())]
        out += chunk
    return out
