"""MSA row attention with pair bias and gating (AlphaFold 2, supplementary algorithm 7)."""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class RowParams(NamedTuple):
    q: jax.Array      # (c_m, h, c)
    k: jax.Array      # (c_m, h, c)
    v: jax.Array      # (c_m, h, c)
    pair: jax.Array   # (c_z, h)
    gate: jax.Array   # (c_m, h, c)
    gate_b: jax.Array  # (h, c)
    out: jax.Array    # (h, c, c_m)


def init_params(key, c_m=12, c_z=6, h=3, c=5) -> RowParams:
    ks = iter(jax.random.split(key, 6))
    r = lambda *s: jax.random.normal(next(ks), s) * s[0] ** -0.5
    return RowParams(r(c_m, h, c), r(c_m, h, c), r(c_m, h, c), r(c_z, h), r(c_m, h, c), jnp.ones((h, c)), r(h, c, c_m))


def layer_norm(x):
    m = x.mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)


def row_attention(p: RowParams, msa, pair, msa_mask=None):
    """msa: (s, r, c_m); pair: (r, r, c_z); msa_mask: (s, r), 1 where the residue is present."""
    x = layer_norm(msa)
    bias = jnp.einsum("ijz,zh->hij", layer_norm(pair), p.pair)

    def one_row(row, present):
        q = jnp.einsum("ia,ahc->hic", row, p.q) * p.q.shape[-1] ** -0.5
        k = jnp.einsum("ja,ahc->hjc", row, p.k)
        v = jnp.einsum("ja,ahc->hjc", row, p.v)
        logits = jnp.einsum("hic,hjc->hij", q, k) + bias + 1e9 * (present - 1.0)[None, None, :]
        o = jnp.einsum("hij,hjc->ihc", jax.nn.softmax(logits, axis=-1), v)
        g = jax.nn.sigmoid(jnp.einsum("ia,ahc->ihc", row, p.gate) + p.gate_b)
        return jnp.einsum("ihc,hca->ia", g * o, p.out)

    if msa_mask is None:
        msa_mask = jnp.ones(msa.shape[:2])
    return jax.vmap(one_row)(x, msa_mask)
