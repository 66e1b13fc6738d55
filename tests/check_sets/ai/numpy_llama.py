"""Tiny from-scratch Llama runner. Reads the tensors of an HF export from a dict:

    model.layers.0.self_attn.q_proj.weight   [out, in]   ...

The HF export has the rows of q_proj / k_proj permuted, so that dimension i of a
head is rotated together with dimension i + head_dim/2 (rotate_half).
"""
from dataclasses import dataclass

import numpy as np


@dataclass
class LlamaCfg:
    n_layer: int = 2
    n_head: int = 4
    n_kv: int = 2
    hidden: int = 32
    theta: float = 10000.0
    eps: float = 1e-5

    @property
    def hd(self):
        return self.hidden // self.n_head


def linear(x, w):
    return x @ w.T


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def rope_tables(cfg, start, n):
    inv = 1.0 / cfg.theta ** (np.arange(0, cfg.hd, 2) / cfg.hd)
    ang = np.outer(np.arange(start, start + n), inv)
    ang = np.repeat(ang, 2, axis=-1)
    return np.cos(ang), np.sin(ang)


def rotate_half(x):
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], axis=-1)


def apply_rope(x, cos, sin):
    return x * cos + rotate_half(x) * sin


class LayerCache:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[1]

    def grow(self, k, v):
        self.k = k if self.k is None else np.concatenate([self.k, k], axis=1)
        self.v = v if self.v is None else np.concatenate([self.v, v], axis=1)
        return self.k, self.v


def self_attn(x, sd, prefix, cfg, cache):
    """x [n, hidden] new tokens -> [n, hidden]; the cache already holds the tokens before."""
    n, start = x.shape[0], len(cache)
    q = linear(x, sd[prefix + "q_proj.weight"]).reshape(n, cfg.n_head, cfg.hd).transpose(1, 0, 2)
    k = linear(x, sd[prefix + "k_proj.weight"]).reshape(n, cfg.n_kv, cfg.hd).transpose(1, 0, 2)
    v = linear(x, sd[prefix + "v_proj.weight"]).reshape(n, cfg.n_kv, cfg.hd).transpose(1, 0, 2)
    cos, sin = rope_tables(cfg, start, n)
    q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
    k, v = cache.grow(k, v)

    g = cfg.n_head // cfg.n_kv
    k, v = np.repeat(k, g, axis=0), np.repeat(v, g, axis=0)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(cfg.hd)
    later = np.arange(k.shape[1])[None, :] > (start + np.arange(n))[:, None]
    s = np.where(later, -np.inf, s)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    o = (s @ v).transpose(1, 0, 2).reshape(n, cfg.n_head * cfg.hd)
    return linear(o, sd[prefix + "o_proj.weight"])


def mlp(x, sd, prefix):
    gate = linear(x, sd[prefix + "gate_proj.weight"])
    up = linear(x, sd[prefix + "up_proj.weight"])
    return linear(gate / (1 + np.exp(-gate)) * up, sd[prefix + "down_proj.weight"])


class Llama:
    def __init__(self, cfg, tensors):
        self.cfg, self.sd = cfg, {k: np.asarray(v, dtype=np.float32) for k, v in tensors.items()}
        self.reset()

    def reset(self):
        self.caches = [LayerCache() for _ in range(self.cfg.n_layer)]

    def __call__(self, ids):
        sd, cfg = self.sd, self.cfg
        x = sd["model.embed_tokens.weight"][np.asarray(ids)]
        for i, cache in enumerate(self.caches):
            p = f"model.layers.{i}."
            x = x + self_attn(rms(x, sd[p + "input_layernorm.weight"], cfg.eps), sd, p + "self_attn.", cfg, cache)
            x = x + mlp(rms(x, sd[p + "post_attention_layernorm.weight"], cfg.eps), sd, p + "mlp.")
        x = rms(x, sd["model.norm.weight"], cfg.eps)
        return linear(x, sd.get("lm_head.weight", sd["model.embed_tokens.weight"]))

    def complete(self, ids, n):
        self.reset()
        logits, out = self(ids), list(ids)
        for _ in range(n):
            out.append(int(logits[-1].argmax()))
            logits = self(out[-1:])
        return out
