"""Grouped-query attention in flax.linen with an explicit cache (port of my torch Llama).

The cache is a pair of fixed arrays plus a write position, so that jit compiles once.  Prefill
and decode go through the same code; splitting a sequence in any way gives the same outputs.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


def rotate(x, pos, theta=10000.0):
    """x (B, T, H, d), pos (T,): pairs (i, i + d/2) turn by pos * theta^(-2i/d)."""
    half = x.shape[-1] // 2
    ang = pos[:, None].astype(jnp.float32) * theta ** (-jnp.arange(half) / half)
    c, s = jnp.cos(ang)[None, :, None], jnp.sin(ang)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def empty_cache(batch, max_len, kv_heads, d):
    z = jnp.zeros((batch, max_len, kv_heads, d))
    return {"k": z, "v": z, "pos": jnp.int32(0)}


class GQA(nn.Module):
    """x (B, T, D) new tokens, cache as from empty_cache with room for T more.

    Returns (y (B, T, D), new cache).  Token t sees everything in the cache before it and
    itself.  Query heads g*n .. g*n + n - 1 share the kv head g (n = heads // kv_heads).
    """
    heads: int
    kv_heads: int
    d: int

    @nn.compact
    def __call__(self, x, cache):
        B, T, D = x.shape
        n = self.heads // self.kv_heads
        q = nn.DenseGeneral((self.heads, self.d), use_bias=False, name="q")(x)
        k = nn.DenseGeneral((self.kv_heads, self.d), use_bias=False, name="k")(x)
        v = nn.DenseGeneral((self.kv_heads, self.d), use_bias=False, name="v")(x)
        pos = cache["pos"] + jnp.arange(T)
        q, k = rotate(q, pos), rotate(k, pos)
        at = (0, cache["pos"], 0, 0)
        ck = jax.lax.dynamic_update_slice(cache["k"], k, at)
        cv = jax.lax.dynamic_update_slice(cache["v"], v, at)
        q = q.reshape(B, T, self.kv_heads, n, self.d)
        s = jnp.einsum("btgnd,bsgd->bgnts", q, ck) / jnp.sqrt(self.d)
        seen = jnp.arange(ck.shape[1])[None, :] <= pos[:, None]
        s = jnp.where(seen, s, -jnp.inf)
        p = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bgnts,bsgd->btgnd", p, cv).reshape(B, T, self.heads, self.d)
        y = nn.DenseGeneral(D, axis=(-2, -1), use_bias=False, name="o")(y)
        return y, {"k": ck, "v": cv, "pos": cache["pos"] + T}
