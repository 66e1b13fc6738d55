"""Memory-lean causal attention: keys in chunks, running maximum (Rabe & Staats 2021)."""
import jax
import jax.numpy as jnp
from jax import lax


def chunked_causal(q, k, v, chunk=16):
    """q, k, v (L, H, d) -> (L, H, d).

    Equals softmax(q k^T / sqrt(d)) v per head with a causal mask (row i: keys
    0..i), but never holds more than L x chunk scores per head.  L need not be a
    multiple of ``chunk``; the key side is padded with zeros that no query sees.
    """
    L, H, d = q.shape
    pad = -L % chunk
    kc = jnp.pad(k, ((0, pad), (0, 0), (0, 0))).reshape(-1, chunk, H, d)
    vc = jnp.pad(v, ((0, pad), (0, 0), (0, 0))).reshape(-1, chunk, H, d)
    rows = jnp.arange(L)
    q = q / jnp.sqrt(d)

    def step(carry, xs):
        m, z, acc = carry                    # (H, L), (H, L), (H, L, d)
        n, kb, vb = xs
        cols = n * chunk + jnp.arange(chunk)
        s = jnp.einsum("lhd,chd->hlc", q, kb)
        s = jnp.where(cols[None, None, :] <= rows[None, :, None], s, -jnp.inf)
        m2 = jnp.maximum(m, s.max(-1))
        # chunk 0 holds key 0, which every row sees, so m2 is finite from then on
        old = jnp.exp(m - m2)
        p = jnp.exp(s - m2[..., None])
        z = z * old + p.sum(-1)
        acc = acc * old[..., None] + jnp.einsum("hlc,chd->hld", p, vb)
        return (m2, z, acc), None

    init = (jnp.full((H, L), -jnp.inf), jnp.zeros((H, L)), jnp.zeros((H, L, d)))
    (m, z, acc), _ = lax.scan(step, init, (jnp.arange(kc.shape[0]), kc, vc))
    return (acc / z[..., None]).transpose(1, 0, 2).astype(v.dtype)


chunked_causal_jit = jax.jit(chunked_causal, static_argnums=3)
