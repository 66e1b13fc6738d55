"""Long-context attention for peat cores: 40 000 slices of pollen counts, one at a time.

The score matrix of a whole core does not fit, so keys are visited in slabs with a
running maximum, a running sum and a running (unnormalised) output.

    m'   = max(m, max_j s_j)
    l'   = l * exp(m - m') + sum_j exp(s_j - m')
    acc' = acc * exp(m - m') + sum_j exp(s_j - m') v_j
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

NEG = -jnp.inf


def _slabs(x, slab):
    """[S, ...] -> [S / slab, slab, ...], padded with zeros."""
    pad = (-x.shape[0]) % slab
    x = jnp.pad(x, [(0, pad)] + [(0, 0)] * (x.ndim - 1))
    return x.reshape(-1, slab, *x.shape[1:])


@partial(jax.jit, static_argnames=("slab",))
def slab_attention(q, k, v, depth_q, depth_k, valid_k, *, slab=16, decay=0.0):
    """One core.

    q         [T, H, D]
    k, v      [S, H, D]
    depth_q   [T]  depth in cm of every query slice
    depth_k   [S]
    valid_k   [S]  False for lost slices, which are ignored
    decay     scalar or [H]; the score falls by decay * |depth difference|
    A query that has no valid slice to look at gets zeros.
    """
    T, H, D = q.shape
    q = q.astype(jnp.float32) * D ** -0.5
    decay = jnp.broadcast_to(jnp.asarray(decay, jnp.float32), (H,))

    def visit(carry, part):
        m, l, acc = carry
        kb, vb, db, ok = part
        s = jnp.einsum("thd,shd->hts", q, kb.astype(jnp.float32))
        s = s - decay[:, None, None] * jnp.abs(depth_q[None, :, None] - db[None, None, :])
        s = jnp.where(ok[None, None, :], s, NEG)
        m_new = jnp.maximum(m, s.max(-1))
        safe = jnp.where(jnp.isneginf(m_new), 0.0, m_new)
        e = jnp.exp(s - safe[..., None])
        fade = jnp.exp(m - safe)
        l = l * fade + e.sum(-1)
        acc = acc * fade[..., None] + jnp.einsum("hts,shd->htd", e, vb.astype(jnp.float32))
        return (m_new, l, acc), None

    start = (jnp.full((H, T), NEG), jnp.zeros((H, T)), jnp.zeros((H, T, D)))
    parts = tuple(_slabs(x, slab) for x in (k, v, depth_k, valid_k))
    (_, l, acc), _ = lax.scan(visit, start, parts)
    y = acc / jnp.where(l > 0, l, 1.0)[..., None]
    return y.transpose(1, 0, 2).astype(v.dtype)


def init(key, width=32, heads=4, taxa=10):
    ks = jax.random.split(key, 4)
    g = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    return {
        "emb": g(ks[0], taxa, width),
        "qkv": g(ks[1], width, 3 * width),
        "out": g(ks[2], width, width),
        "climate": g(ks[3], width, 2),
        "decay": jnp.full((heads,), -3.0),
    }


def core_to_climate(params, counts, depth, valid, heads=4):
    """counts [S, taxa] -> July temperature and annual rain per slice, [S, 2]"""
    x = jnp.sqrt(counts / jnp.maximum(counts.sum(-1, keepdims=True), 1.0)) @ params["emb"]
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    f = lambda t: t.reshape(t.shape[0], heads, -1)
    y = slab_attention(f(q), f(k), f(v), depth, depth, valid, decay=jax.nn.softplus(params["decay"]))
    x = x + y.reshape(x.shape) @ params["out"]
    return x @ params["climate"]


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    n = 50
    cts = jax.random.poisson(jax.random.PRNGKey(1), 8.0, (n, 10)).astype(jnp.float32)
    ok = jnp.arange(n) % 7 != 3
    print(core_to_climate(p, cts, jnp.arange(n) * 0.5, ok)[:3])
