"""A functional Perceiver IO in jax: dict of weights in, arrays out."""
from types import SimpleNamespace

import jax
import jax.numpy as jnp
from jax import random


def make_config(**kw):
    cfg = dict(d_in=12, d_latent=32, n_latents=5, d_out_query=8, heads=4, dim_head=8, n_self=2)
    cfg.update(kw)
    return SimpleNamespace(**cfg)


def dense(key, i, o):
    return {"w": random.normal(key, (i, o)) * i ** -0.5, "b": jnp.zeros(o)}


def apply(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(((x - mu) ** 2).mean(-1, keepdims=True) + eps)


def init_attention(key, d_q, d_kv, d_out, heads, dim_head):
    ks = random.split(key, 4)
    inner = heads * dim_head
    return {
        "q": dense(ks[0], d_q, inner), "k": dense(ks[1], d_kv, inner),
        "v": dense(ks[2], d_kv, inner), "o": dense(ks[3], inner, d_out),
    }


def cross_attention(p, x_q, x_kv, heads, kv_mask=None):
    """Scaled dot-product attention.  x_q (B, Q, Cq), x_kv (B, M, Ck),
    kv_mask (B, M) bool, True = element exists (at least one per row)."""
    q, k, v = apply(p["q"], x_q), apply(p["k"], x_kv), apply(p["v"], x_kv)
    split = lambda t: t.reshape(t.shape[0], t.shape[1], heads, -1).transpose(0, 2, 1, 3)
    q, k, v = split(q), split(k), split(v)
    scale = q.shape[-1] ** -0.5

    sim = jnp.einsum("bhid,bhjd->bhij", q, k) / scale
    if kv_mask is not None:
        sim = jnp.where(kv_mask[:, None, None, :], sim, jnp.finfo(sim.dtype).min)
    attn = jax.nn.softmax(sim, axis=-1)
    out = jnp.einsum("bhij,bhjd->bhid", attn, v)
    out = out.transpose(0, 2, 1, 3).reshape(out.shape[0], out.shape[2], -1)
    return apply(p["o"], out)


def init_perceiver(key, cfg):
    ks = random.split(key, 4 + 2 * cfg.n_self)
    d = cfg.d_latent
    return {
        "latents": random.normal(ks[0], (cfg.n_latents, d)) * 0.5,
        "enc": init_attention(ks[1], d, cfg.d_in, d, cfg.heads, cfg.dim_head),
        "self": [init_attention(k, d, d, d, cfg.heads, cfg.dim_head) for k in ks[4:4 + cfg.n_self]],
        "ff": [{"a": dense(random.fold_in(k, 0), d, 2 * d), "b": dense(random.fold_in(k, 1), 2 * d, d)} for k in ks[4 + cfg.n_self:]],
        "dec": init_attention(ks[2], cfg.d_out_query, d, cfg.d_out_query, cfg.heads, cfg.dim_head),
    }


def perceiver(params, cfg, x, out_query, mask=None):
    B = x.shape[0]
    z = jnp.broadcast_to(params["latents"], (B,) + params["latents"].shape)
    z = z + cross_attention(params["enc"], layer_norm(z), layer_norm(x), cfg.heads, mask)
    for a, f in zip(params["self"], params["ff"]):
        n = layer_norm(z)
        z = z + cross_attention(a, n, n, cfg.heads)
        z = z + apply(f["b"], jax.nn.gelu(apply(f["a"], layer_norm(z))))
    return cross_attention(params["dec"], layer_norm(out_query), layer_norm(z), cfg.heads)
