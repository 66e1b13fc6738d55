"""Heliostat field controller: every mirror state attends to its recent past (JAX).

`lookback(q, k, v)` is causal with a window: step t uses the steps t-W ... t, that is W
steps besides t itself.  Logits are capped (cap * tanh(s / cap)) before masking.  The
queries are handled in chunks under lax.map to bound the memory on the edge computer.
"""
import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax


@dataclasses.dataclass(frozen=True)
class Lookback:
    window: int = 8
    cap: float = 15.0
    chunk: int = 16


def _chunk(args, k, v, cfg):
    q, t0 = args
    s = jnp.einsum("thd,shd->hts", q, k) * q.shape[-1] ** -0.5
    s = cfg.cap * jnp.tanh(s / cfg.cap)
    t = t0 + jnp.arange(q.shape[0])[:, None]
    u = jnp.arange(k.shape[0])[None, :]
    s = jnp.where((u <= t) & (u >= t - cfg.window), s, -jnp.inf)
    # chunk rows beyond the series are cut off by the caller; keep them finite
    m = jnp.max(s, -1, keepdims=True)
    e = jnp.exp(s - jnp.where(jnp.isfinite(m), m, 0.0))
    w = e / jnp.maximum(e.sum(-1, keepdims=True), 1e-30)
    return jnp.einsum("hts,shd->thd", w, v)


@functools.partial(jax.jit, static_argnames="cfg")
def lookback(q, k, v, cfg=Lookback()):
    """q, k, v: (T, H, d) -> (T, H, d)"""
    T = q.shape[0]
    n = -(-T // cfg.chunk)
    qp = jnp.pad(q, ((0, n * cfg.chunk - T), (0, 0), (0, 0)))
    qp = qp.reshape(n, cfg.chunk, *q.shape[1:])
    starts = jnp.arange(n) * cfg.chunk
    out = lax.map(lambda a: _chunk(a, k, v, cfg), (qp, starts))
    return out.reshape(n * cfg.chunk, *out.shape[2:])[:T]


def sun_vector(hour, decl=0.2, lat=0.65):
    """East, north, up."""
    w = (hour - 12.0) * jnp.pi / 12.0
    return jnp.stack([
        -jnp.cos(decl) * jnp.sin(w),
        jnp.cos(lat) * jnp.sin(decl) - jnp.sin(lat) * jnp.cos(decl) * jnp.cos(w),
        jnp.sin(lat) * jnp.sin(decl) + jnp.cos(lat) * jnp.cos(decl) * jnp.cos(w),
    ], -1)


def mirror_normal(sun, target):
    n = sun / jnp.linalg.norm(sun, axis=-1, keepdims=True) + target / jnp.linalg.norm(target, axis=-1, keepdims=True)
    return n / jnp.linalg.norm(n, axis=-1, keepdims=True)


if __name__ == "__main__":
    h = sun_vector(jnp.linspace(6, 18, 50))
    x = jnp.repeat(h[:, None, :], 2, 1)
    print(lookback(x, x, x).shape)
