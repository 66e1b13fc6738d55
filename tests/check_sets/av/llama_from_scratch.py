"""Tiny Llama-style inference in plain NumPy.  Weights come from a dict of arrays
with the names of the HF export ("model.layers.0.self_attn.q_proj.weight", ...).
HF export means: rotary pairs are (i, i + d/2), Linear weights are [out, in].
"""
import numpy as np


class Hyper:
    def __init__(self, d=32, h=4, kv=2, layers=1, theta=1e4, eps=1e-5):
        self.d, self.h, self.kv, self.layers, self.theta, self.eps = d, h, kv, layers, theta, eps
        self.hd = d // h


def rmsnorm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def rot(x, pos, theta):
    # x: [T, heads, hd]
    hd = x.shape[-1]
    f = theta ** (-np.arange(0, hd, 2) / hd)
    ang = pos[:, None] * f[None]
    c, s = np.cos(ang)[:, None], np.sin(ang)[:, None]
    a, b = x[..., : hd // 2], x[..., hd // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


class KV:
    def __init__(self, hp, cap):
        self.k = np.zeros((hp.layers, cap, hp.kv, hp.hd))
        self.v = np.zeros((hp.layers, cap, hp.kv, hp.hd))
        self.n = 0


def attend(W, hp, layer, x, cache):
    """x: [T, d], the T tokens after the cache.n ones already seen. Causal."""
    p = f"model.layers.{layer}.self_attn."
    T = x.shape[0]
    n0 = cache.n
    pos = np.arange(n0, n0 + T)
    q = (x @ W[p + "q_proj.weight"].T).reshape(T, hp.h, hp.hd)
    k = (x @ W[p + "k_proj.weight"].T).reshape(T, hp.kv, hp.hd)
    v = (x @ W[p + "v_proj.weight"].T).reshape(T, hp.kv, hp.hd)
    q, k = rot(q, pos, hp.theta), rot(k, pos, hp.theta)
    cache.k[layer, n0:n0 + T] = k
    cache.v[layer, n0:n0 + T] = v
    K, V = cache.k[layer, :n0 + T], cache.v[layer, :n0 + T]
    g = hp.h // hp.kv
    out = np.empty((T, hp.h, hp.hd))
    for head in range(hp.h):
        kh = head // g
        s = q[:, head] @ K[:, kh].T / np.sqrt(hp.hd)
        s = np.where(np.arange(n0 + T)[None] <= pos[:, None], s, -np.inf)
        out[:, head] = softmax(s) @ V[:, kh]
    return out.reshape(T, hp.d) @ W[p + "o_proj.weight"].T


def mlp(W, layer, x):
    p = f"model.layers.{layer}.mlp."
    return (silu(x @ W[p + "gate_proj.weight"].T) * (x @ W[p + "up_proj.weight"].T)) @ W[p + "down_proj.weight"].T


def forward(W, hp, ids, cache):
    x = W["model.embed_tokens.weight"][ids]
    for i in range(hp.layers):
        x = x + attend(W, hp, i, rmsnorm(x, W[f"model.layers.{i}.input_layernorm.weight"], hp.eps), cache)
        x = x + mlp(W, i, rmsnorm(x, W[f"model.layers.{i}.post_attention_layernorm.weight"], hp.eps))
    cache.n += len(ids)
    return rmsnorm(x, W["model.norm.weight"], hp.eps) @ W["model.embed_tokens.weight"].T


def generate(W, hp, prompt, steps):
    cache = KV(hp, len(prompt) + steps)
    logits = forward(W, hp, np.asarray(prompt), cache)
    out = list(prompt)
    for _ in range(steps):
        out.append(int(logits[-1].argmax()))
        if len(out) - len(prompt) < steps:
            logits = forward(W, hp, np.asarray(out[-1:]), cache)
    return out
