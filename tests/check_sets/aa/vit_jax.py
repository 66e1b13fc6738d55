"""ViT encoder for CIFAR in plain JAX (no flax)."""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class ViTConfig(NamedTuple):
    dim: int = 24
    heads: int = 3
    mlp: int = 32
    depth: int = 2


def dense_init(key, n_in, n_out):
    w = jax.random.truncated_normal(key, -2, 2, (n_in, n_out)) * (1.0 / n_in) ** 0.5
    return {"w": w, "b": jnp.zeros(n_out)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(x, eps=1e-6):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + eps)


def init_attention(key, cfg=ViTConfig()):
    k1, k2 = jax.random.split(key)
    return {"qkv": dense_init(k1, cfg.dim, 3 * cfg.dim), "out": dense_init(k2, cfg.dim, cfg.dim)}


def attention(params, x, heads=3):
    """Multi-head self-attention among patches.

    x: [B, N, D] -> ([B, N, D], weights [B, heads, N, N]); weights[b, h, i] is
    the distribution of patch i over all the patches.
    """
    B, N, D = x.shape
    qkv = dense(params["qkv"], x).reshape(B, N, 3, heads, D // heads)
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    # b: image, h: head, n/m: patches
    scores = jnp.einsum("bnhd,bmhd->bhnm", q, k) * (D // heads) ** -0.5
    weights = jax.nn.softmax(scores, axis=1)
    y = jnp.einsum("bhnm,bmhd->bnhd", weights, v).reshape(B, N, D)
    return dense(params["out"], y), weights


def init_block(key, cfg=ViTConfig()):
    k1, k2, k3 = jax.random.split(key, 3)
    return {"attn": init_attention(k1, cfg),
            "up": dense_init(k2, cfg.dim, cfg.mlp),
            "down": dense_init(k3, cfg.mlp, cfg.dim)}


def block(params, x, heads=3):
    y, _ = attention(params["attn"], layer_norm(x), heads)
    x = x + y
    return x + dense(params["down"], jax.nn.gelu(dense(params["up"], layer_norm(x))))


def encoder(params, x, heads=3):
    for p in params:
        x = block(p, x, heads)
    return layer_norm(x).mean(axis=1)
