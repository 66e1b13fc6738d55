"""haiku-gpt: write haikus on a Raspberry Pi, no torch needed.

Causal language model with a key/value cache. The poem so far may be extended
by any number of tokens per call; each new token sees all earlier tokens and itself.
"""
import json
import numpy as np


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    z = np.exp(z)
    return z / z.sum(axis=-1, keepdims=True)


def norm(x, g, b):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


class Tokenizer:
    def __init__(self, path):
        with open(path, encoding="utf8") as f:
            self.itos = json.load(f)
        self.stoi = {s: i for i, s in enumerate(self.itos)}

    def encode(self, s):
        return [self.stoi[c] for c in s]

    def decode(self, ids):
        return "".join(self.itos[i] for i in ids)


class KVCache:
    def __init__(self, n_layer):
        self.k = [None] * n_layer
        self.v = [None] * n_layer

    def push(self, i, k, v):
        if self.k[i] is None:
            self.k[i], self.v[i] = k, v
        else:
            self.k[i] = np.concatenate([self.k[i], k], axis=1)
            self.v[i] = np.concatenate([self.v[i], v], axis=1)
        return self.k[i], self.v[i]

    def __len__(self):
        return 0 if self.k[0] is None else self.k[0].shape[1]


def causal_attention(x, blk, n_head, cache, i):
    """x: [T, C] new tokens of one sequence."""
    T, C = x.shape
    qkv = x @ blk["c_attn"]["w"] + blk["c_attn"]["b"]
    q, k, v = [t.reshape(T, n_head, C // n_head).transpose(1, 0, 2) for t in np.split(qkv, 3, axis=-1)]
    k, v = cache.push(i, k, v)
    S = k.shape[1]
    att = q @ k.transpose(0, 2, 1) / np.sqrt(C // n_head)
    if T > 1:
        see = np.tril(np.ones((T, S), dtype=bool))
        att = np.where(see[None], att, -1e10)
    y = softmax(att) @ v
    y = y.transpose(1, 0, 2).reshape(T, C)
    return y @ blk["c_proj"]["w"] + blk["c_proj"]["b"]


def forward(ids, params, n_head, cache):
    at = len(cache)
    x = params["wte"][ids] + params["wpe"][at:at + len(ids)]
    for i, blk in enumerate(params["blocks"]):
        x = x + causal_attention(norm(x, *blk["ln_1"]), blk, n_head, cache, i)
        h = norm(x, *blk["ln_2"])
        x = x + gelu(h @ blk["fc"]["w"] + blk["fc"]["b"]) @ blk["pr"]["w"] + blk["pr"]["b"]
    return norm(x, *params["ln_f"]) @ params["wte"].T


def write(params, tok, n_head, first_line, season_word, n=40, temp=0.9, seed=0):
    rng = np.random.default_rng(seed)
    cache = KVCache(len(params["blocks"]))
    forward(tok.encode(first_line), params, n_head, cache)
    logits = forward(tok.encode("\n" + season_word), params, n_head, cache)[-1]
    out = []
    for _ in range(n):
        p = softmax(logits / temp)
        out.append(int(rng.choice(len(p), p=p)))
        logits = forward([out[-1]], params, n_head, cache)[-1]
    return first_line + "\n" + season_word + tok.decode(out)
