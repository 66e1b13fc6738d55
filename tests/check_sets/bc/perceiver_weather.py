"""Perceiver-style encoder: irregular weather stations -> fixed latents (Flax)."""
import flax.linen as nn
import jax
import jax.numpy as jnp

NEG = -1e9


def fourier(pos, bands=4):
    """pos [..., 2] in [-1, 1] -> [..., 2 * 2 * bands]"""
    f = jnp.pi * 2.0 ** jnp.arange(bands)
    a = pos[..., None] * f
    a = a.reshape(*pos.shape[:-1], -1)
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], -1)


class LatentReader(nn.Module):
    """latents [B, N, D] query the stations [B, M, F].

    reporting [B, M]: True for stations that sent data in this hour. Every hour has
    at least one of them.
    """

    heads: int = 4
    head_dim: int = 8
    out: int = 32

    @nn.compact
    def __call__(self, latents, stations, reporting=None):
        latents_n = nn.LayerNorm(name="ln_q")(latents)
        stations = nn.LayerNorm(name="ln_kv")(stations)
        shape = (self.heads, self.head_dim)
        q = nn.DenseGeneral(shape, name="q")(latents_n)
        k = nn.DenseGeneral(shape, name="k")(stations)
        v = nn.DenseGeneral(shape, name="v")(stations)
        logits = jnp.einsum("bnhd,bmhd->bhnm", q, k) * self.head_dim**-0.5
        if reporting is not None:
            logits = jnp.where(reporting[:, None, None, :], logits, NEG)
        probs = jax.nn.softmax(logits, axis=-1)
        ctx = jnp.einsum("bhnm,bmhd->bnhd", probs, v)
        return latents + nn.DenseGeneral(self.out, axis=(-2, -1), name="o")(ctx)


class StationEncoder(nn.Module):
    n_latents: int = 6
    width: int = 32

    @nn.compact
    def __call__(self, values, pos, reporting):
        x = jnp.concatenate([values, fourier(pos)], -1)
        z = self.param("latents", nn.initializers.normal(0.02), (self.n_latents, self.width))
        z = jnp.broadcast_to(z, (x.shape[0],) + z.shape)
        z = LatentReader(out=self.width)(z, x, reporting)
        return z + nn.Dense(self.width)(nn.gelu(nn.Dense(2 * self.width)(z)))
