"""Row-wise gated self attention over a multiple sequence alignment, with pair bias.

Pure JAX re-write of AlphaFold's Algorithm 7. Shapes: s = sequences, r = residues,
c_m, c_z = channels, h = heads, c = channels per head.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import sigmoid

BIG_NEG = -1e9


class RowParams(NamedTuple):
    ln_m: jax.Array     # [2, c_m] scale, offset
    ln_z: jax.Array     # [2, c_z]
    wq: jax.Array       # [c_m, h, c]
    wk: jax.Array
    wv: jax.Array
    wb: jax.Array       # [c_z, h]
    wg: jax.Array       # [c_m, h, c]
    bg: jax.Array       # [h, c]
    wo: jax.Array       # [h, c, c_m]
    bo: jax.Array       # [c_m]


def init(key, c_m=32, c_z=16, h=4, c=8) -> RowParams:
    ks = jax.random.split(key, 6)
    lin = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return RowParams(
        ln_m=jnp.stack([jnp.ones(c_m), jnp.zeros(c_m)]),
        ln_z=jnp.stack([jnp.ones(c_z), jnp.zeros(c_z)]),
        wq=lin(ks[0], c_m, h, c), wk=lin(ks[1], c_m, h, c), wv=lin(ks[2], c_m, h, c),
        wb=lin(ks[3], c_z, h), wg=lin(ks[4], c_m, h, c), bg=jnp.ones((h, c)),
        wo=lin(ks[5], h, c, c_m), bo=jnp.zeros(c_m))


def layer_norm(x, p, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + eps) * p[0] + p[1]


def row_attention(p: RowParams, m, z, msa_mask):
    """m [s, r, c_m], z [r, r, c_z] (z[i, j]: i queries j), msa_mask [s, r] 1 = residue, 0 = gap/pad.

    Returns the update [s, r, c_m]. A row without any residue attends evenly (as in the original);
    its update is not used.
    """
    m = layer_norm(m, p.ln_m)
    c = p.wq.shape[-1]
    q = jnp.einsum("sra,ahc->srhc", m, p.wq) * c ** -0.5
    k = jnp.einsum("sra,ahc->srhc", m, p.wk)
    v = jnp.einsum("sra,ahc->srhc", m, p.wv)
    bias = jnp.einsum("ija,ah->hij", layer_norm(z, p.ln_z), p.wb)
    logits = jnp.einsum("sihc,sjhc->shij", q, k) + bias[None]
    logits = logits + BIG_NEG * (1.0 - msa_mask)[:, None, None, :]
    w = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("shij,sjhc->sihc", w, v)
    g = sigmoid(jnp.einsum("sra,ahc->srhc", m, p.wg) + p.bg)
    return jnp.einsum("sihc,hca->sia", o * g, p.wo) + p.bo


@functools.partial(jax.jit, static_argnames="rate")
def row_block(p, m, z, msa_mask, key, rate=0.15):
    """Residual update with row-shared dropout (one mask for all sequences)."""
    upd = row_attention(p, m, z, msa_mask)
    if rate > 0:
        keep = jax.random.bernoulli(key, 1 - rate, (1,) + upd.shape[1:])
        upd = jnp.where(keep, upd / (1 - rate), 0.0)
    return m + upd


if __name__ == "__main__":
    pr = init(jax.random.PRNGKey(0))
    print(row_attention(pr, jnp.ones((3, 5, 32)), jnp.ones((5, 5, 16)), jnp.ones((3, 5))).shape)
