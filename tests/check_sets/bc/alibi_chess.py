"""Move-sequence model for correspondence chess (JAX, no library on top).

Games are up to 400 plies; trained on 128 plies with ALiBi so that it extrapolates.
"""
import jax
import jax.numpy as jnp

PIECES = "PNBRQKpnbrqk"
N_MOVES = 64 * 64 + 4 * 22  # from-to plus promotions


def move_id(frm: int, to: int) -> int:
    return frm * 64 + to


def head_slopes(n):
    # n is a power of two in all our configs
    return 2.0 ** (-8.0 * jnp.arange(1, n + 1) / n)


def attend(q, k, v):
    """Causal attention with linear biases (Press et al.).

    q, k, v: [batch, plies, heads, dim]. Older plies are penalised in proportion to how
    long ago they were played.
    """
    L, H, d = q.shape[1:]
    logits = jnp.einsum("bihd,bjhd->bhij", q, k) / d**0.5
    i = jnp.arange(L)[:, None]
    j = jnp.arange(L)[None, :]
    distance = i - j
    logits = logits + head_slopes(H)[:, None, None] * distance
    logits = jnp.where(j <= i, logits, -jnp.inf)
    return jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(logits, -1), v)


def init_layer(key, width=64, heads=4):
    a, b, c = jax.random.split(key, 3)
    return {
        "qkv": jax.random.normal(a, (width, 3, heads, width // heads)) * width**-0.5,
        "out": jax.random.normal(b, (heads, width // heads, width)) * width**-0.5,
        "ff": jax.random.normal(c, (2, width, width)) * width**-0.5,
    }


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def layer(p, x):
    q, k, v = jnp.moveaxis(jnp.einsum("bld,dche->blche", norm(x), p["qkv"]), 2, 0)
    x = x + jnp.einsum("blhe,hed->bld", attend(q, k, v), p["out"])
    return x + jax.nn.relu(norm(x) @ p["ff"][0]) @ p["ff"][1]
