"""Flax cross attention used in the Perceiver-style resampler."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class XAttn(nn.Module):
    """Latents attend to inputs *and* to themselves (keys = [inputs ; latents]).

    lat [B, M, D], inp [B, N, Dc], keep [B, N] bool True = usable input. Queries and keys
    are RMS-normalised per head, so the usual 1/sqrt(d) still applies on unit-RMS vectors.
    """
    heads: int = 4
    d_head: int = 8
    rate: float = 0.1

    @nn.compact
    def __call__(self, lat, inp, keep: Optional[jax.Array] = None, train: bool = False):
        hd = (self.heads, self.d_head)
        inp = nn.Dense(lat.shape[-1], name="lift")(inp)
        x = nn.LayerNorm(name="ln_lat")(lat)
        kv = jnp.concatenate([nn.LayerNorm(name="ln_inp")(inp), x], axis=1)
        q = nn.DenseGeneral(hd, use_bias=False, name="q")(x)
        k = nn.DenseGeneral(hd, use_bias=False, name="k")(kv)
        v = nn.DenseGeneral(hd, use_bias=False, name="v")(kv)
        q = nn.RMSNorm(name="qn")(q)
        k = nn.RMSNorm(name="kn")(k)
        s = jnp.einsum("bmhd,bnhd->bhmn", q, k) / jnp.sqrt(self.d_head).astype(q.dtype)
        if keep is not None:
            own = jnp.ones((keep.shape[0], lat.shape[1]), dtype=bool)
            ok = jnp.concatenate([keep.astype(bool), own], axis=1)
            s = jnp.where(ok[:, None, None, :], s, -jnp.inf)   # own latents always visible
        p = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(v.dtype)
        p = nn.Dropout(self.rate, deterministic=not train)(p)
        y = jnp.einsum("bhmn,bnhd->bmhd", p, v)
        return lat + nn.DenseGeneral(lat.shape[-1], axis=(-2, -1), name="o")(y)
