#!/usr/bin/env python3
# Assignment 4 -- character level transformer, numpy only (inference part)
# student no. removed

import numpy as np


def init_params(vocab, d=32, h=4, n_layers=2, max_t=64, seed=0):
    r = np.random.RandomState(seed)
    g = lambda *s: r.randn(*s) * (1.0 / np.sqrt(s[0]))
    P = {"tok": r.randn(vocab, d) * 0.1, "pos": r.randn(max_t, d) * 0.1, "h": h, "layers": []}
    for _ in range(n_layers):
        P["layers"].append({"Wq": g(d, d), "Wk": g(d, d), "Wv": g(d, d), "Wo": g(d, d),
                            "W1": g(d, 4 * d), "W2": g(4 * d, d),
                            "g1": np.ones(d), "g2": np.ones(d)})
    return P


def layernorm(x, gain, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    sd = np.sqrt(x.var(-1, keepdims=True) + eps)
    return gain * (x - mu) / sd


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def causal_attention(x, layer, n_heads):
    """x: (B, T, D). A character may look at itself and at the characters before it."""
    B, T, D = x.shape
    hs = D // n_heads

    def heads(W):
        return (x @ W).reshape(B, T, n_heads, hs).transpose(0, 2, 1, 3)

    Q, K, V = heads(layer["Wq"]), heads(layer["Wk"]), heads(layer["Wv"])
    S = Q @ K.transpose(0, 1, 3, 2) / np.sqrt(hs)
    row = np.arange(1, T + 1)[:, None]
    col = np.arange(T)[None, :]
    S = np.where(col > row, -np.inf, S)
    A = softmax(S)
    out = (A @ V).transpose(0, 2, 1, 3).reshape(B, T, D)
    return out @ layer["Wo"], A


def forward(ids, P):
    ids = np.atleast_2d(ids)
    x = P["tok"][ids] + P["pos"][: ids.shape[1]]
    maps = []
    for l in P["layers"]:
        a, A = causal_attention(layernorm(x, l["g1"]), l, P["h"])
        x = x + a
        x = x + np.maximum(layernorm(x, l["g2"]) @ l["W1"], 0) @ l["W2"]
        maps.append(A)
    return x @ P["tok"].T, maps


def nll(ids, P):
    logits, _ = forward(ids[:, :-1], P)
    p = softmax(logits)
    b, t = np.indices(ids[:, 1:].shape)
    return -np.log(p[b, t, ids[:, 1:]]).mean()


def sample(P, start, n, rng):
    ids = list(start)
    for _ in range(n):
        logits, _ = forward(np.array(ids[-64:]), P)
        ids.append(int(rng.choice(logits.shape[-1], p=softmax(logits[0, -1]))))
    return ids


if __name__ == "__main__":
    P = init_params(30)
    ids = np.random.default_rng(0).integers(0, 30, (2, 12))
    print(nll(ids, P), sample(P, [1, 2, 3], 5, np.random.default_rng(1)))
