"""ViT with muP in functional JAX. Parameters are nested dicts, single image functions, vmap outside."""
from typing import Any, Dict

import jax
import jax.numpy as jnp

Params = Dict[str, Any]


def layer_norm(p: Params, x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]


def init_block(key, dim, heads, mlp):
    a, b, c, d = jax.random.split(key, 4)
    ln = lambda: {"scale": jnp.ones(dim), "bias": jnp.zeros(dim)}
    hd = dim // heads
    return {
        "ln1": ln(), "ln2": ln(),
        "qkv": jax.random.normal(a, (3, heads, dim, hd)) / dim ** 0.5,
        "proj": jax.random.normal(b, (heads, hd, dim)) / dim ** 0.5,
        "fc1": jax.random.normal(c, (dim, mlp)) / dim ** 0.5, "b1": jnp.zeros(mlp),
        "fc2": jax.random.normal(d, (mlp, dim)) / mlp ** 0.5, "b2": jnp.zeros(dim),
    }


def init(key, img=16, patch=4, dim=32, depth=2, heads=4, mlp=64, classes=5) -> Params:
    k_patch, k_pos, k_head, *ks = jax.random.split(key, 3 + depth)
    n = (img // patch) ** 2
    return {
        "patch": jax.random.normal(k_patch, (patch * patch * 3, dim)) / (patch * patch * 3) ** 0.5,
        "cls": jnp.zeros((1, dim)),
        "pos": jax.random.normal(k_pos, (n + 1, dim)) * 0.02,
        "blocks": [init_block(k, dim, heads, mlp) for k in ks],
        "ln": {"scale": jnp.ones(dim), "bias": jnp.zeros(dim)},
        "head": jax.random.normal(k_head, (dim, classes)) / dim,
    }


def one_head(wqkv, wo, x):
    """wqkv (3, dim, hd), wo (hd, dim), x (n, dim). What this head adds to the residual stream."""
    q, k, v = jnp.einsum("nd,sdh->snh", x, wqkv)
    # muP wants 1/d instead of 1/sqrt(d) so that the optimal learning rate carries over between widths
    w = jax.nn.softmax(q @ k.T / q.shape[-1], axis=-1)
    return w @ v @ wo


def block(p: Params, x):
    y = layer_norm(p["ln1"], x)
    # the output projection of concatenated heads is a sum over heads
    x = x + jax.vmap(one_head, in_axes=(1, 0, None))(p["qkv"], p["proj"], y).sum(0)
    y = layer_norm(p["ln2"], x)
    return x + jax.nn.gelu(y @ p["fc1"] + p["b1"]) @ p["fc2"] + p["b2"]


def patchify(img, patch):
    H, W, C = img.shape
    x = img.reshape(H // patch, patch, W // patch, patch, C)
    return x.transpose(0, 2, 1, 3, 4).reshape(-1, patch * patch * C)


def forward(params: Params, img, patch=4):
    """img (H, W, 3) -> logits"""
    x = jnp.concatenate([params["cls"], patchify(img, patch) @ params["patch"]]) + params["pos"]
    for p in params["blocks"]:
        x = block(p, x)
    return layer_norm(params["ln"], x)[0] @ params["head"]


batched_forward = jax.jit(jax.vmap(forward, in_axes=(None, 0)))
