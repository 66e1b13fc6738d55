"""Mistral in plain numpy (forward only), for reading along with the paper.

params.json of the reference:  dim, n_heads, n_kv_heads, head_dim, sliding_window, norm_eps

sliding_window counts the token itself: with sliding_window = 3 token i sees i-2, i-1 and i.
"""
import numpy as np

DEFAULT = {
    "dim": 32, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8, "hidden_dim": 64,
    "sliding_window": 4, "norm_eps": 1e-5, "rope_theta": 10000.0,
}


def rms_norm(x, w, eps):
    return x / np.sqrt(np.mean(x ** 2, -1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def freqs(args, n):
    inv = 1.0 / args["rope_theta"] ** (np.arange(0, args["head_dim"], 2) / args["head_dim"])
    return np.exp(1j * np.outer(np.arange(n), inv))


def apply_rotary_emb(x, cis):
    """x (S, H, D): neighbouring pairs are the real and imaginary part"""
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * cis[:, None, :]
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def sliding_mask(n, window):
    """additive (n, n): 0 inside the causal window, -inf outside"""
    keep = np.tril(np.ones((n, n)))
    keep = np.triu(keep, -window)
    with np.errstate(divide="ignore"):
        return np.log(keep)


class Attention:
    def __init__(self, args, rng):
        self.args = args
        d, h, kv, hd = args["dim"], args["n_heads"], args["n_kv_heads"], args["head_dim"]
        self.wq = rng.normal(size=(d, h * hd)) / np.sqrt(d)
        self.wk = rng.normal(size=(d, kv * hd)) / np.sqrt(d)
        self.wv = rng.normal(size=(d, kv * hd)) / np.sqrt(d)
        self.wo = rng.normal(size=(h * hd, d)) / np.sqrt(h * hd)

    def __call__(self, x):
        a = self.args
        S = x.shape[0]
        xq = (x @ self.wq).reshape(S, a["n_heads"], a["head_dim"])
        xk = (x @ self.wk).reshape(S, a["n_kv_heads"], a["head_dim"])
        xv = (x @ self.wv).reshape(S, a["n_kv_heads"], a["head_dim"])
        cis = freqs(a, S)
        xq, xk = apply_rotary_emb(xq, cis), apply_rotary_emb(xk, cis)
        rep = a["n_heads"] // a["n_kv_heads"]
        xk, xv = np.repeat(xk, rep, axis=1), np.repeat(xv, rep, axis=1)
        scores = np.einsum("qhd,khd->hqk", xq, xk) / np.sqrt(a["head_dim"])
        scores = scores + sliding_mask(S, a["sliding_window"])
        out = np.einsum("hqk,khd->qhd", softmax(scores), xv)
        return out.reshape(S, -1) @ self.wo


class Block:
    def __init__(self, args, rng):
        d, f = args["dim"], args["hidden_dim"]
        self.eps = args["norm_eps"]
        self.attention = Attention(args, rng)
        self.n1, self.n2 = np.ones(d), np.ones(d)
        self.w1, self.w3 = rng.normal(size=(d, f)) / np.sqrt(d), rng.normal(size=(d, f)) / np.sqrt(d)
        self.w2 = rng.normal(size=(f, d)) / np.sqrt(f)

    def __call__(self, x):
        h = x + self.attention(rms_norm(x, self.n1, self.eps))
        n = rms_norm(h, self.n2, self.eps)
        return h + (silu(n @ self.w1) * (n @ self.w3)) @ self.w2


class Mistral:
    def __init__(self, vocab=50, layers=2, seed=0, **over):
        self.args = {**DEFAULT, **over}
        rng = np.random.default_rng(seed)
        self.tok = rng.normal(size=(vocab, self.args["dim"]))
        self.layers = [Block(self.args, rng) for _ in range(layers)]

    def __call__(self, ids):
        x = self.tok[np.asarray(ids)]
        for layer in self.layers:
            x = layer(x)
        return rms_norm(x, 1.0, self.args["norm_eps"]) @ self.tok.T
