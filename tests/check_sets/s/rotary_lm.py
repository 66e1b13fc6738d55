from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class LMConfig:
    dim: int = 64
    heads: int = 4
    rope_base: float = 10000.0
    logit_softcap: float = 30.0   # scores are squashed to (-cap, cap) before the softmax

    @property
    def head_dim(self):
        return self.dim // self.heads


def rope_table(cfg, length):
    inv = 1.0 / cfg.rope_base ** (jnp.arange(0, cfg.head_dim, 2) / cfg.head_dim)
    ang = jnp.outer(jnp.arange(length), inv)
    ang = jnp.repeat(ang, 2, axis=-1)
    return jnp.cos(ang), jnp.sin(ang)


def rotate_half(x):
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([-b, a], axis=-1)


def apply_rope(x, cos, sin):
    return x * cos + rotate_half(x) * sin


def attention(params, cfg, x):
    """Causal self-attention. x (batch, length, dim); params: wq, wk, wv, wo, all (dim, dim)."""
    b, l, _ = x.shape
    cos, sin = rope_table(cfg, l)

    def heads(w):
        return (x @ w).reshape(b, l, cfg.heads, cfg.head_dim).transpose(0, 2, 1, 3)

    q = apply_rope(heads(params["wq"]), cos, sin)
    k = apply_rope(heads(params["wk"]), cos, sin)
    v = heads(params["wv"])
    scores = jnp.einsum("bhid,bhjd->bhij", q, k) / jnp.sqrt(cfg.head_dim)
    scores = jnp.where(jnp.tril(jnp.ones((l, l), bool)), scores, -jnp.inf)
    probs = jax.nn.softmax(scores, axis=-1)
    out = jnp.einsum("bhij,bhjd->bhid", probs, v)
    return out.transpose(0, 2, 1, 3).reshape(b, l, cfg.dim) @ params["wo"]
