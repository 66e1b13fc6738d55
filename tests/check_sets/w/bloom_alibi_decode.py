"""ALiBi decoder attention with a fixed-size cache, pure functions (BLOOM flavour)."""
import math

import jax
import jax.numpy as jnp
from jax import lax

HEADS = 6
MAX_LEN = 32


def alibi_slopes(n):
    def pow2(m):
        start = 2 ** (-(2 ** -(math.log2(m) - 3)))
        return [start * start**i for i in range(m)]

    if math.log2(n).is_integer():
        return jnp.array(pow2(n))
    closest = 2 ** math.floor(math.log2(n))
    extra = pow2(2 * closest)[0::2][: n - closest]
    return jnp.array(pow2(closest) + extra)


def init_params(rng, width=48, layers=2):
    def one(r):
        a, b, c, d = jax.random.split(r, 4)
        s = width**-0.5
        return dict(
            wqkv=jax.random.normal(a, (width, 3, HEADS, width // HEADS)) * s,
            wo=jax.random.normal(b, (HEADS, width // HEADS, width)) * s,
            w1=jax.random.normal(c, (width, 4 * width)) * s,
            w2=jax.random.normal(d, (4 * width, width)) * s / 2,
        )

    return [one(r) for r in jax.random.split(rng, layers)]


def init_cache(batch, width=48, layers=2):
    shape = (batch, MAX_LEN, HEADS, width // HEADS)
    return [dict(k=jnp.zeros(shape), v=jnp.zeros(shape)) for _ in range(layers)]


def ln(x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def attend(p, x, cache, index):
    b, t, _ = x.shape
    q, k, v = jnp.moveaxis(jnp.einsum("btc,cshd->btshd", x, p["wqkv"]), 2, 0)
    ks = lax.dynamic_update_slice(cache["k"], k, (0, index, 0, 0))
    vs = lax.dynamic_update_slice(cache["v"], v, (0, index, 0, 0))

    s = jnp.einsum("bthd,bshd->bhts", q, ks) / math.sqrt(q.shape[-1])
    qpos = index + jnp.arange(t)[:, None]
    kpos = jnp.arange(MAX_LEN)[None, :]
    s = s + alibi_slopes(HEADS)[:, None, None] * (kpos - qpos)
    s = jnp.where(kpos <= qpos, s, -jnp.inf)  # slots that are not filled yet lie in the future
    w = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhts,bshd->bthd", w, vs)
    return jnp.einsum("bthd,hdc->btc", y, p["wo"]), dict(k=ks, v=vs)


def forward(params, x, caches, index=0):
    """x (batch, t, width): embeddings of tokens index .. index+t-1. Returns hidden states and the new caches."""
    new = []
    for p, c in zip(params, caches):
        y, c = attend(p, ln(x), c, index)
        x = x + y
        x = x + jax.nn.gelu(ln(x) @ p["w1"]) @ p["w2"]
        new.append(c)
    return x, new
