"""llama3.np style port: loads a Llama-layout checkpoint, runs it with NumPy.

Weight names and orders follow the original files: q_weight (n_heads*hd, dim),
k_weight / v_weight (n_kv_heads*hd, dim); query heads of one group are adjacent.
"""
from dataclasses import dataclass
import numpy as np


@dataclass
class ModelArgs:
    dim: int = 48
    n_layers: int = 2
    n_heads: int = 6
    n_kv_heads: int = 3
    vocab_size: int = 64
    max_seq_len: int = 32
    norm_eps: float = 1e-6


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def silu(x):
    return x * (1 / (1 + np.exp(-x)))


def compute_cos_sin_cache(head_dim, max_seq_len, base=10000):
    inv_freq = 1.0 / (base ** (np.arange(0, head_dim, 2)[: (head_dim // 2)] / head_dim))
    freqs = np.outer(np.arange(max_seq_len), inv_freq)
    return np.cos(freqs), np.sin(freqs)


def apply_rotary_emb(x, cos, sin):
    # x (B, L, N, HD), pairs are (0,1), (2,3), ...
    xr, xi = x[..., 0::2], x[..., 1::2]
    c, s = cos[None, :, None], sin[None, :, None]
    return np.stack([xr * c - xi * s, xr * s + xi * c], axis=-1).reshape(x.shape)


def expand_kv(x, n_rep):
    if n_rep == 1:
        return x
    return np.concatenate([x] * n_rep, axis=2)


def random_checkpoint(a: ModelArgs, seed=0):
    r = np.random.default_rng(seed)
    hd = a.dim // a.n_heads
    w = {"tok": r.normal(0, .5, (a.vocab_size, a.dim)), "norm": np.ones(a.dim)}
    for i in range(a.n_layers):
        n = lambda o, k: r.normal(0, k ** -.5, (o, k))
        w[i] = dict(q=n(a.n_heads * hd, a.dim), k=n(a.n_kv_heads * hd, a.dim), v=n(a.n_kv_heads * hd, a.dim),
                    o=n(a.dim, a.n_heads * hd), gate=n(2 * a.dim, a.dim), up=n(2 * a.dim, a.dim),
                    down=n(a.dim, 2 * a.dim), n1=np.ones(a.dim), n2=np.ones(a.dim))
    return w


class Attention:
    def __init__(self, w, args: ModelArgs):
        self.w, self.args = w, args
        self.n_rep = args.n_heads // args.n_kv_heads
        self.hd = args.dim // args.n_heads
        self.cache_k = self.cache_v = None

    def __call__(self, x, start_pos, cos, sin):
        B, L, _ = x.shape
        xq = (x @ self.w["q"].T).reshape(B, L, self.args.n_heads, self.hd)
        xk = (x @ self.w["k"].T).reshape(B, L, self.args.n_kv_heads, self.hd)
        xv = (x @ self.w["v"].T).reshape(B, L, self.args.n_kv_heads, self.hd)
        xq, xk = apply_rotary_emb(xq, cos, sin), apply_rotary_emb(xk, cos, sin)
        if start_pos == 0:
            shape = (B, self.args.max_seq_len, self.args.n_kv_heads, self.hd)
            self.cache_k, self.cache_v = np.zeros(shape), np.zeros(shape)
        self.cache_k[:B, start_pos: start_pos + L] = xk
        self.cache_v[:B, start_pos: start_pos + L] = xv
        ks = expand_kv(self.cache_k[:B, : start_pos + L], self.n_rep).transpose(0, 2, 3, 1)
        vs = expand_kv(self.cache_v[:B, : start_pos + L], self.n_rep).transpose(0, 2, 1, 3)
        attn = xq.transpose(0, 2, 1, 3) @ ks / np.sqrt(self.hd)
        if L > 1:
            mask = np.triu(np.full((L, L), float("-inf")), k=1)
            attn = attn + np.concatenate([np.zeros((L, start_pos)), mask], axis=1)
        out = softmax(attn) @ vs
        return out.transpose(0, 2, 1, 3).reshape(B, L, -1) @ self.w["o"].T


class Llama:
    def __init__(self, weights=None, args: ModelArgs = None):
        self.args = args or ModelArgs()
        self.w = weights or random_checkpoint(self.args)
        self.attn = [Attention(self.w[i], self.args) for i in range(self.args.n_layers)]
        self.cos, self.sin = compute_cos_sin_cache(self.args.dim // self.args.n_heads, self.args.max_seq_len)

    def rms(self, x, g):
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.args.norm_eps) * g

    def __call__(self, input_ids, start_pos=0):
        """input_ids (B, L) -> logits of the last position (B, vocab)"""
        h = self.w["tok"][input_ids]
        L = h.shape[1]
        c, s = self.cos[start_pos: start_pos + L], self.sin[start_pos: start_pos + L]
        for i, att in enumerate(self.attn):
            w = self.w[i]
            h = h + att(self.rms(h, w["n1"]), start_pos, c, s)
            z = self.rms(h, w["n2"])
            h = h + (silu(z @ w["gate"].T) * (z @ w["up"].T)) @ w["down"].T
        return self.rms(h, self.w["norm"])[:, -1] @ self.w["tok"].T

    def generate(self, input_ids, max_new_tokens):
        L = input_ids.shape[1]
        for i, cur in enumerate(range(L, L + max_new_tokens)):
            x, pos = (input_ids, 0) if i == 0 else (nxt, cur - 1)
            nxt = self(x, pos).argmax(-1)[:, None]
            yield nxt
