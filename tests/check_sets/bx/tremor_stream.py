"""Seismic trace summariser with constant memory (JAX).

`summarise_trace` is exact softmax attention of a few probe vectors over a long
trace, but the trace is read in blocks by `lax.scan`; a running maximum, a
running sum and a running numerator are carried (the online softmax), so the
result equals that of the whole trace at once.  Multi-head, scores divided by
sqrt(head_dim).  The trace is padded up to a multiple of `block`; padded
samples carry no weight.
"""
import math

import jax
import jax.numpy as jnp


def init_params(key, feat=5, dim=12, probes=3):
    ks = jax.random.split(key, 4)
    dense = lambda k, i, o: jax.random.normal(k, (i, o)) / math.sqrt(i)
    return {
        "probe": jax.random.normal(ks[0], (probes, dim)),
        "k": dense(ks[1], feat, dim),
        "v": dense(ks[2], feat, dim),
        "out": dense(ks[3], dim, dim),
    }


def summarise_trace(params, trace, heads=2, block=16):
    """trace (time, feat) -> (probes, dim)"""
    probes, dim = params["probe"].shape
    hd = dim // heads
    t = trace.shape[0]
    n_blocks = -(-t // block)
    padded = jnp.pad(trace, ((0, n_blocks * block - t), (0, 0)))
    inside = jnp.arange(n_blocks * block) < t
    q = params["probe"].reshape(probes, heads, hd) / math.sqrt(hd)

    def read(carry, part):
        peak, total, num = carry
        x, ok = part
        k = (x @ params["k"]).reshape(block, heads, hd)
        v = (x @ params["v"]).reshape(block, heads, hd)
        s = jnp.einsum("phd,thd->hpt", q, k)
        s = jnp.where(ok, s, -jnp.inf)
        new_peak = jnp.maximum(peak, s.max(-1))
        e = jnp.exp(s - new_peak[..., None])
        fade = jnp.exp(peak - new_peak)
        total = total * fade + e.sum(-1)
        num = num * fade[..., None] + jnp.einsum("hpt,thd->hpd", e, v)
        return (new_peak, total, num), None

    start = (
        jnp.full((heads, probes), -jnp.inf),
        jnp.zeros((heads, probes)),
        jnp.zeros((heads, probes, hd)),
    )
    parts = (padded.reshape(n_blocks, block, -1), inside.reshape(n_blocks, block))
    (_, total, num), _ = jax.lax.scan(read, start, parts)
    y = (num / total[..., None]).transpose(1, 0, 2).reshape(probes, dim)
    return y @ params["out"]
