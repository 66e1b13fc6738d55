"""Multihead attention pooling (MAP) head for a vision tower, Flax linen.

    fmap   (B, H, W, C)  patch features of the tower
    valid  (B, H, W) bool or None; True = patch lies inside the picture (at least one per picture)
    out    (B, C)        one vector per picture

A learned probe asks all patches: per head softmax over the valid patches of probe.k / sqrt(d),
then out = y + MLP(LN(y)).
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class MAPHead(nn.Module):
    heads: int = 4
    mlp_dim: int = 64

    @nn.compact
    def __call__(self, fmap, valid=None):
        B, H, W, C = fmap.shape
        d = C // self.heads
        toks = fmap.reshape(B, H * W, C)
        probe = self.param("probe", nn.initializers.xavier_uniform(), (1, C))

        q = nn.DenseGeneral((self.heads, d), name="q")(probe)[0]          # heads, d
        k = nn.DenseGeneral((self.heads, d), name="k")(toks)              # B, N, heads, d
        v = nn.DenseGeneral((self.heads, d), name="v")(toks)
        z = jnp.einsum("hd,bnhd->bnh", q, k) * (d ** -0.5)
        if valid is not None:
            z = jnp.where(valid.reshape(B, H * W, 1), z, -1e30)
        alpha = jax.nn.softmax(z, axis=1)
        y = jnp.einsum("bnh,bnhd->bhd", alpha, v)
        y = nn.DenseGeneral(C, axis=(-2, -1), name="o")(y)

        m = nn.LayerNorm(name="ln")(y)
        m = nn.Dense(C, name="fc2")(nn.gelu(nn.Dense(self.mlp_dim, name="fc1")(m)))
        return y + m
