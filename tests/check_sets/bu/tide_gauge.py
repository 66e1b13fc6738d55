"""Harbour tide gauges: one step per six minutes, decoded with lax.scan.

Multi-query attention: all query heads share one key and one value head.
The cache has a fixed size (XLA wants that); slots that are not yet written
are masked.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class TideParams(NamedTuple):
    wq: jax.Array   # (D, H, K)
    wk: jax.Array   # (D, K)
    wv: jax.Array   # (D, K)
    wo: jax.Array   # (H, K, D)


class TideCache(NamedTuple):
    k: jax.Array    # (B, N, K)
    v: jax.Array    # (B, N, K)
    t: jax.Array    # () int32, number of written slots


def init_params(key, D=16, H=4, K=8):
    a, b, c, d = jax.random.split(key, 4)
    return TideParams(
        jax.random.normal(a, (D, H, K)) / jnp.sqrt(D),
        jax.random.normal(b, (D, K)) / jnp.sqrt(D),
        jax.random.normal(c, (D, K)) / jnp.sqrt(D),
        jax.random.normal(d, (H, K, D)) / jnp.sqrt(H * K),
    )


def empty_cache(B, N, K, dtype=jnp.float32):
    return TideCache(jnp.zeros((B, N, K), dtype), jnp.zeros((B, N, K), dtype), jnp.int32(0))


def one_reading(p: TideParams, cache: TideCache, x):
    """x (B, D) -> cache, (B, D)"""
    k = lax.dynamic_update_slice(cache.k, (x @ p.wk)[:, None].astype(cache.k.dtype), (0, cache.t, 0))
    v = lax.dynamic_update_slice(cache.v, (x @ p.wv)[:, None].astype(cache.v.dtype), (0, cache.t, 0))
    q = jnp.einsum("bd,dhk->bhk", x, p.wq)
    s = jnp.einsum("bhk,bnk->bhn", q, k) * (q.shape[-1] ** -0.5)
    written = jnp.arange(k.shape[1]) <= cache.t
    s = jnp.where(written, s, -jnp.inf)
    y = jnp.einsum("bhn,bnk->bhk", jax.nn.softmax(s, axis=-1), v)
    return TideCache(k, v, cache.t + 1), jnp.einsum("bhk,hkd->bd", y, p.wo)


@partial(jax.jit, static_argnames="slots")
def tide_decode(p: TideParams, series, slots=None):
    """series (B, T, D), T <= slots -> (B, T, D), each reading sees itself and the past."""
    B, T, _ = series.shape
    cache = empty_cache(B, slots or T, p.wk.shape[1], series.dtype)
    _, ys = lax.scan(partial(one_reading, p), cache, series.swapaxes(0, 1))
    return ys.swapaxes(0, 1)


def surge(p, series, harmonic):
    """Residual above the harmonic tide, first channel."""
    return tide_decode(p, series)[..., 0] - harmonic


if __name__ == "__main__":
    p = init_params(jax.random.key(0))
    print(tide_decode(p, jnp.ones((2, 5, 16)), slots=8).shape)
