"""ViT with register tokens as plain JAX functions; everything is written for ONE image
and vmapped.

image    (S, S, 3) float, S a multiple of the patch size P
logits   (classes,)

The token order is [cls, registers..., patches...].  All tokens read all tokens.
wqkv has shape (D, 3*H*d) and its columns are laid out as (3, H, d): first all queries
head by head, then all keys, then all values.  Logits are divided by sqrt(d).
"""
from functools import partial

import jax
import jax.numpy as jnp


def make(key, S=32, P=8, D=48, H=4, depth=2, regs=3, classes=10):
    k = iter(jax.random.split(key, 6 + 4 * depth))
    w = lambda *s: jax.random.normal(next(k), s) / jnp.sqrt(s[0])
    return {
        "patch": w(P * P * 3, D),
        "pos": w((S // P) ** 2, D),
        "cls": w(1, D),
        "regs": w(regs, D),
        "head": w(D, classes),
        "blocks": [
            {"wqkv": w(D, 3 * D), "wo": w(D, D), "up": w(D, 4 * D), "down": w(4 * D, D)}
            for _ in range(depth)
        ],
    }


def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def cut(image, P):
    s = image.shape[0] // P
    return image.reshape(s, P, s, P, 3).transpose(0, 2, 1, 3, 4).reshape(s * s, -1)


def one_head(q, k, v):
    return jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[-1]), axis=-1) @ v


def block(p, x, H):
    n, D = x.shape
    qkv = (norm(x) @ p["wqkv"]).reshape(n, 3, H, D // H)
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]                     # each (n, H, d)
    y = jax.vmap(one_head, in_axes=1, out_axes=1)(q, k, v)
    x = x + y.reshape(n, D) @ p["wo"]
    return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


def classify(params, image, P=8, H=4):
    x = cut(image, P) @ params["patch"] + params["pos"]
    x = jnp.concatenate([params["cls"], params["regs"], x])
    for p in params["blocks"]:
        x = block(p, x, H)
    return norm(x[0]) @ params["head"]


@partial(jax.jit, static_argnames=("P", "H"))
def classify_batch(params, images, P=8, H=4):
    return jax.vmap(lambda im: classify(params, im, P, H))(images)
