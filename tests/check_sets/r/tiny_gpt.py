from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Config:
    vocab: int = 17
    n_embd: int = 12
    n_head: int = 3
    block_size: int = 10


def init(key, cfg):
    ks = jax.random.split(key, 6)
    C = cfg.n_embd
    return {
        "wte": 0.5 * jax.random.normal(ks[0], (cfg.vocab, C)),
        "wpe": 0.5 * jax.random.normal(ks[1], (cfg.block_size, C)),
        "qkv": jax.random.normal(ks[2], (C, 3 * C)) * C**-0.5,
        "proj": jax.random.normal(ks[3], (C, C)) * C**-0.5,
        "fc": jax.random.normal(ks[4], (C, 4 * C)) * C**-0.5,
        "out": jax.random.normal(ks[5], (4 * C, C)) * 0.5 * C**-0.5,
    }


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def causal_self_attention(p, x, cfg):
    """x (T, C).  Token t looks at tokens 0 .. t and at no later one."""
    T, C = x.shape
    q, k, v = (t.reshape(T, cfg.n_head, -1).transpose(1, 0, 2) for t in jnp.split(x @ p["qkv"], 3, axis=-1))
    att = jax.nn.softmax(q @ k.swapaxes(1, 2) / (C // cfg.n_head) ** 0.5, axis=-1)
    return (att @ v).transpose(1, 0, 2).reshape(T, C) @ p["proj"]


def logits(p, tokens, cfg=Config()):
    """tokens (T,) -> next-token logits (T, vocab)"""
    x = p["wte"][tokens] + p["wpe"][: len(tokens)]
    x = x + causal_self_attention(p, norm(x), cfg)
    x = x + jax.nn.gelu(norm(x) @ p["fc"]) @ p["out"]
    return norm(x) @ p["wte"].T
