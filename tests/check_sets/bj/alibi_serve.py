"""MPT-like attention for serving, JAX, fixed-capacity cache in a dict.

cache = {"k": [B, S, H, D], "v": [B, S, H, D], "pos": int32 [B]}

Sequences of a batch may be at different positions ("pos" is a vector): every
row writes its tokens at its own offset.  ALiBi: bias = -slope * (i - j).
"""
import functools
import math

import jax
import jax.numpy as jnp


def slopes(n):
    """Published ALiBi slopes for any number of heads."""
    def pow2(m):
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]

    low = 2 ** math.floor(math.log2(n))
    out = pow2(low)
    if low < n:
        out += pow2(2 * low)[0::2][: n - low]
    return jnp.array(out, jnp.float32)


def new_cache(batch, size, heads, dim, dtype=jnp.float32):
    z = jnp.zeros((batch, size, heads, dim), dtype)
    return {"k": z, "v": z, "pos": jnp.zeros((batch,), jnp.int32)}


def _write(buf, new, pos):
    put = lambda b, n, p: jax.lax.dynamic_update_slice(b, n.astype(b.dtype), (p, 0, 0))
    return jax.vmap(put)(buf, new, pos)


@functools.partial(jax.jit, static_argnames="heads")
def attend(params, x, cache, heads):
    """x [B, T, C], T new tokens for each row -> (y [B, T, C], cache)."""
    b, t, c = x.shape
    d = c // heads
    qkv = (x @ params["wqkv"]).reshape(b, t, 3, heads, d)
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    pos = cache["pos"]
    cache = {"k": _write(cache["k"], k, pos), "v": _write(cache["v"], v, pos), "pos": pos + t}

    i = pos[:, None] + jnp.arange(t)[None]
    j = jnp.arange(cache["k"].shape[1])
    dist = i[:, :, None] - j[None, None]
    s = jnp.einsum("bthd,bshd->bhts", q, cache["k"]).astype(jnp.float32) / math.sqrt(d)
    s = s - slopes(heads)[None, :, None, None] * dist[:, None]
    s = jnp.where(dist[:, None] >= 0, s, -jnp.inf)
    w = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    y = jnp.einsum("bhts,bshd->bthd", w, cache["v"])
    return y.reshape(b, t, c) @ params["wo"], cache


def evict(cache, rows):
    """Restart the given rows (new requests); stale entries are masked."""
    keep = jnp.ones_like(cache["pos"]).at[jnp.asarray(rows)].set(0)
    return {**cache, "pos": cache["pos"] * keep}


def init(key, c):
    a, b = jax.random.split(key)
    return {
        "wqkv": jax.random.normal(a, (c, 3 * c)) / math.sqrt(c),
        "wo": jax.random.normal(b, (c, c)) / math.sqrt(c),
    }


if __name__ == "__main__":
    p, cache = init(jax.random.PRNGKey(0), 24), new_cache(2, 16, 6, 4)
    y, cache = attend(p, jnp.ones((2, 5, 24)), cache, heads=6)
    y, cache = attend(p, jnp.ones((2, 1, 24)), cache, heads=6)
    print(y.shape, cache["pos"])
