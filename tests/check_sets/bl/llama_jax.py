# Llama-like decoder in pure JAX, params as nested dicts. Converted HF checkpoints load as they are.
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Params(NamedTuple):
    n_heads: int = 8
    n_kv_heads: int = 2
    head_dim: int = 16
    dim: int = 128
    rope_theta: float = 500000.0
    norm_eps: float = 1e-5


def rms_norm(x, w, eps):
    return w * (x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps))


def rotate(x, positions, theta):
    """[B, L, H, D], HF layout (first half / second half)."""
    d = x.shape[-1]
    inv = theta ** (-jnp.arange(0, d, 2) / d)
    ang = positions[..., None] * inv
    cos = jnp.cos(ang)[:, :, None, :]
    sin = jnp.sin(ang)[:, :, None, :]
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@partial(jax.jit, static_argnames="cfg")
def attention(params, x, positions, attn_mask, cfg: Params):
    """Grouped-query attention.

    params     {wq (dim, H*D), wk (dim, Hkv*D), wv (dim, Hkv*D), wo (H*D, dim)}
    x          [B, L, dim]
    attn_mask  [B, L] 1 = token, 0 = padding (left padding allowed)
    Causal.  Consecutive groups of H // Hkv query heads share a kv head, as in the
    released checkpoints.
    """
    B, L, _ = x.shape
    q = (x @ params["wq"]).reshape(B, L, cfg.n_heads, cfg.head_dim)
    k = (x @ params["wk"]).reshape(B, L, cfg.n_kv_heads, cfg.head_dim)
    v = (x @ params["wv"]).reshape(B, L, cfg.n_kv_heads, cfg.head_dim)
    q, k = rotate(q, positions, cfg.rope_theta), rotate(k, positions, cfg.rope_theta)

    n_rep = cfg.n_heads // cfg.n_kv_heads
    k = jnp.tile(k, (1, 1, n_rep, 1))
    v = jnp.tile(v, (1, 1, n_rep, 1))

    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(cfg.head_dim)
    causal = jnp.tril(jnp.ones((L, L), bool))
    keep = causal[None, None] & attn_mask.astype(bool)[:, None, None, :]
    logits = jnp.where(keep, logits.astype(jnp.float32), jnp.finfo(jnp.float32).min)
    probs = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
    y = jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(B, L, -1)
    return y @ params["wo"]


def block(p, x, positions, mask, cfg):
    x = x + attention(p["attn"], rms_norm(x, p["ln1"], cfg.norm_eps), positions, mask, cfg)
    h = rms_norm(x, p["ln2"], cfg.norm_eps)
    return x + (jax.nn.silu(h @ p["w1"]) * (h @ p["w3"])) @ p["w2"]


def init_attn(key, cfg: Params):
    ks = jax.random.split(key, 4)
    q, kv = cfg.n_heads * cfg.head_dim, cfg.n_kv_heads * cfg.head_dim
    shapes = dict(wq=(cfg.dim, q), wk=(cfg.dim, kv), wv=(cfg.dim, kv), wo=(q, cfg.dim))
    return {n: jax.random.normal(k, s) * cfg.dim ** -0.5 for k, (n, s) in zip(ks, shapes.items())}


if __name__ == "__main__":
    cfg = Params()
    p = init_attn(jax.random.PRNGKey(0), cfg)
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 6, cfg.dim))
    mask = jnp.array([[1] * 6, [0, 0, 1, 1, 1, 1]])
    pos = jnp.maximum(jnp.cumsum(mask, -1) - 1, 0)
    print(attention(p, x, pos, mask, cfg).shape)
