"""Functional llama in jax: no classes, params are nested dicts, state is a NamedTuple.

The cache has a fixed length so that one jitted step serves prefill and decode.
RoPE is the HF variant (first half / second half), as the weights come from HF files.
"""
from functools import partial
from typing import NamedTuple
import jax
import jax.numpy as jnp


class Hyper(NamedTuple):
    n_q: int = 8
    n_kv: int = 2
    head: int = 16
    theta: float = 10000.0
    eps: float = 1e-5


class KV(NamedTuple):
    k: jax.Array      # [B, S, n_kv, head]
    v: jax.Array
    used: jax.Array   # scalar, tokens that are stored


def empty_kv(b, s, hp, dtype=jnp.float32):
    z = jnp.zeros((b, s, hp.n_kv, hp.head), dtype)
    return KV(z, z, jnp.array(0, jnp.int32))


def rms(x, w, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * w


def rope(x, pos, theta):
    # x [B, T, H, D], pos [T]
    d = x.shape[-1]
    inv = theta ** (-jnp.arange(0, d, 2) / d)
    ang = pos[:, None] * inv[None]
    ang = jnp.concatenate([ang, ang], -1)[None, :, None, :]
    a, b = jnp.split(x, 2, axis=-1)
    return x * jnp.cos(ang) + jnp.concatenate([-b, a], -1) * jnp.sin(ang)


def gqa_attention(p, hp, x, kv):
    """causal grouped-query attention of the new tokens x [B, T, D] to all stored ones"""
    B, T, _ = x.shape
    S = kv.k.shape[1]
    pos = kv.used + jnp.arange(T)
    q = (x @ p["wq"]).reshape(B, T, hp.n_q, hp.head)
    k = (x @ p["wk"]).reshape(B, T, hp.n_kv, hp.head)
    v = (x @ p["wv"]).reshape(B, T, hp.n_kv, hp.head)
    q, k = rope(q, pos, hp.theta), rope(k, pos, hp.theta)
    zero = jnp.zeros_like(kv.used)
    K = jax.lax.dynamic_update_slice(kv.k, k, (zero, kv.used, zero, zero))
    V = jax.lax.dynamic_update_slice(kv.v, v, (zero, kv.used, zero, zero))
    # query heads g*r .. g*r+r-1 read kv head g
    q = q.reshape(B, T, hp.n_kv, hp.n_q // hp.n_kv, hp.head)
    s = jnp.einsum("btgrd,bsgd->bgrts", q, K) * hp.head ** -0.5
    keep = jnp.arange(S)[None, :] <= pos[:, None]
    s = jnp.where(keep, s, jnp.finfo(s.dtype).min)
    w = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(x.dtype)
    o = jnp.einsum("bgrts,bsgd->btgrd", w, V).reshape(B, T, hp.n_q * hp.head)
    return o @ p["wo"], KV(K, V, kv.used + T)


def mlp(p, x):
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


@partial(jax.jit, static_argnums=1)
def step(params, hp, tokens, kvs):
    x = params["embed"][tokens]
    out = []
    for layer, kv in zip(params["layers"], kvs):
        h, kv = gqa_attention(layer["attn"], hp, rms(x, layer["n1"], hp.eps), kv)
        x = x + h
        x = x + mlp(layer["mlp"], rms(x, layer["n2"], hp.eps))
        out.append(kv)
    return rms(x, params["norm"], hp.eps) @ params["embed"].T, out


def generate(params, hp, prompt, n_new, max_len=256):
    kvs = [empty_kv(prompt.shape[0], max_len, hp) for _ in params["layers"]]
    logits, kvs = step(params, hp, prompt, kvs)
    got = []
    for _ in range(n_new):
        nxt = logits[:, -1].argmax(-1)[:, None]
        got.append(nxt)
        logits, kvs = step(params, hp, nxt, kvs)
    return jnp.concatenate(got, 1)
