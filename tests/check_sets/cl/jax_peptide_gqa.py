"""Functional attention layer of the peptide LM. Weights are converted from the PyTorch
checkpoint, where kv head j serves the query heads j*G .. j*G + G - 1 (G = Hq // Hkv)."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def random_params(seed=7, dim=32, hq=4, hkv=2):
    d = dim // hq
    r = np.random.default_rng(seed)
    n = lambda *s: r.normal(0, dim ** -0.5, s).astype(np.float32)
    return dict(wq=n(dim, hq, d), wk=n(dim, hkv, d), wv=n(dim, hkv, d), wo=n(hq, d, dim))


@partial(jax.jit, static_argnames="causal")
def _attend(p, x, causal):
    q = jnp.einsum("btc,chd->bhtd", x, p["wq"])
    k = jnp.einsum("btc,chd->bhtd", x, p["wk"])
    v = jnp.einsum("btc,chd->bhtd", x, p["wv"])
    g = q.shape[1] // k.shape[1]
    k = jnp.tile(k, (1, g, 1, 1))
    v = jnp.tile(v, (1, g, 1, 1))
    s = jnp.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    if causal:
        t = x.shape[1]
        s = jnp.where(jnp.tri(t, dtype=bool), s, -jnp.inf)
    return jnp.einsum("bhij,bhjd,hdc->bic", jax.nn.softmax(s, -1), v, p["wo"])


def peptide_attention(x, params=None, causal=True):
    """x: [batch, residues, dim] -> same shape. Autoregressive unless causal=False."""
    if params is None:
        params = random_params(dim=x.shape[-1])
    return _attend(params, x, causal)
