"""Port of a public 7B checkpoint's decoder attention to plain jax (weights come from torch).

Head layout of the checkpoint: the query heads of one key/value head are neighbours, i.e.
with 8 query heads and 2 kv heads, query heads 0-3 belong to kv head 0 and 4-7 to kv head 1.
"""
import dataclasses
import math

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class ModelArgs:
    dim: int = 32
    n_heads: int = 8
    n_kv_heads: int = 2
    norm_eps: float = 1e-6
    rope_base: float = 10000.0

    @property
    def head_dim(self):
        return self.dim // self.n_heads


def convert_torch(sd):
    """nn.Linear weights (out, in) -> matrices for x @ W."""
    return {k: jnp.asarray(v).T for k, v in sd.items()}


def rms_norm(x, w, eps):
    x32 = x.astype(jnp.float32)
    y = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + eps)
    return (y * w).astype(x.dtype)


def rotate_half(x):
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate((-b, a), axis=-1)


def rope_tables(T, dim, base):
    inv = 1.0 / base ** (jnp.arange(0, dim, 2) / dim)
    ang = jnp.arange(T)[:, None] * inv[None, :]
    ang = jnp.concatenate((ang, ang), axis=-1)
    return jnp.cos(ang), jnp.sin(ang)


def expand_kv(x, n_rep):
    """(B, K, T, D) -> (B, K * n_rep, T, D)"""
    if n_rep == 1:
        return x
    return jnp.tile(x, (1, n_rep, 1, 1))


def attention(w, args, x, pad_mask=None):
    """x (B, T, dim), causal.  pad_mask (B, T) bool, True = token; padding on the right."""
    B, T, _ = x.shape
    heads = lambda t, n: t.reshape(B, T, n, args.head_dim).transpose(0, 2, 1, 3)
    q = heads(x @ w["q_proj"], args.n_heads)
    k = heads(x @ w["k_proj"], args.n_kv_heads)
    v = heads(x @ w["v_proj"], args.n_kv_heads)

    cos, sin = rope_tables(T, args.head_dim, args.rope_base)
    q = q * cos + rotate_half(q) * sin
    k = k * cos + rotate_half(k) * sin

    n_rep = args.n_heads // args.n_kv_heads
    k, v = expand_kv(k, n_rep), expand_kv(v, n_rep)

    scores = q @ k.swapaxes(-1, -2) / math.sqrt(args.head_dim)
    allowed = jnp.tril(jnp.ones((T, T), bool))[None, None]
    if pad_mask is not None:
        allowed = allowed & pad_mask[:, None, None, :]
    scores = jnp.where(allowed, scores.astype(jnp.float32), -jnp.inf)
    probs = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    out = (probs @ v).transpose(0, 2, 1, 3).reshape(B, T, -1)
    return out @ w["o_proj"]


def layer(w, args, x, pad_mask=None):
    x = x + attention(w, args, rms_norm(x, w["norm1"], args.norm_eps), pad_mask)
    h = rms_norm(x, w["norm2"], args.norm_eps)
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]
