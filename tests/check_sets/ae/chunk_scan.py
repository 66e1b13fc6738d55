from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


@partial(jax.jit, static_argnames=("chunk",))
def chunked_attention(q, k, v, chunk=32):
    """Memory-efficient attention (Rabe & Staats), any number of keys.

    q [Tq, H, D], k [Tk, H, D], v [Tk, H, E] -> [Tq, H, E]
    """
    Tk, H, D = k.shape
    extra = -Tk % chunk
    pad = lambda t: jnp.pad(t, ((0, extra), (0, 0), (0, 0))).reshape(-1, chunk, H, t.shape[-1])
    real = (jnp.arange(Tk + extra) < Tk).reshape(-1, chunk)
    q = q.astype(jnp.float32) / jnp.sqrt(D)

    @jax.checkpoint
    def body(carry, blk):
        num, den, top = carry
        kb, vb, ok = blk
        s = jnp.einsum("qhd,khd->hqk", q, kb.astype(jnp.float32))
        s = jnp.where(ok, s, -jnp.inf)
        new = jnp.maximum(top, lax.stop_gradient(s.max(-1)))
        w = jnp.exp(s - new[..., None])
        shrink = jnp.exp(top - new)
        num = num * shrink[..., None] + jnp.einsum("hqk,khe->hqe", w, vb.astype(jnp.float32))
        den = den * shrink + w.sum(-1)
        return (num, den, new), None

    hq = (H, q.shape[0])
    start = (jnp.zeros(hq + (v.shape[-1],)), jnp.zeros(hq), jnp.full(hq, -jnp.inf))
    (num, den, _), _ = lax.scan(body, start, (pad(k), pad(v), real))
    return (num / den[..., None]).transpose(1, 0, 2).astype(v.dtype)
