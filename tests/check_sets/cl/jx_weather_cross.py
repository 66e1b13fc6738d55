"""Stations attend to grid cells: grouped-query cross attention in plain JAX."""
import jax
import jax.numpy as jnp
import numpy as np


def init(seed=0, d_station=24, d_grid=20, n_q_heads=4, n_kv_heads=2, d_head=8):
    rng = np.random.default_rng(seed)
    lin = lambda *s: (rng.standard_normal(s) * s[0] ** -0.5).astype(np.float32)
    return {
        # query heads sit in n_kv_heads groups of consecutive heads
        "q": lin(d_station, n_kv_heads, n_q_heads // n_kv_heads, d_head),
        "k": lin(d_grid, n_kv_heads, d_head),
        "v": lin(d_grid, n_kv_heads, d_head),
        "o": lin(n_q_heads * d_head, d_station),
    }


@jax.jit
def _read(p, stations, grid, sea):
    q = jnp.einsum("bsc,cgrd->bgrsd", stations, p["q"])
    k = jnp.einsum("bnc,cgd->bgnd", grid, p["k"])
    v = jnp.einsum("bnc,cgd->bgnd", grid, p["v"])
    logits = jnp.einsum("bgrsd,bgnd->bgrsn", q, k) / jnp.sqrt(q.shape[-1])
    if sea is not None:
        logits = jnp.where(sea[:, None, None, None, :], -jnp.inf, logits)
    w = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("bgrsn,bgnd->bsgrd", w, v)
    return o.reshape(*o.shape[:2], -1) @ p["o"]


def station_reads_grid(stations, grid, sea=None, params=None):
    """Cross attention.

    Args:
      stations: [batch, S, d_station]
      grid: [batch, G, d_grid]
      sea: optional bool [batch, G]; sea cells (True) are left out. There is always
        some land in a region.
    Returns:
      [batch, S, d_station]
    """
    if params is None:
        params = init(0, stations.shape[-1], grid.shape[-1])
    return _read(params, stations, grid, sea)
