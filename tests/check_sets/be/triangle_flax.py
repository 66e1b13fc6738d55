"""Triangle attention around the starting / ending node (AlphaFold 2, Alg. 13/14), Flax.

pair  [N, N, C]   pair representation z_ij
mask  [N, N]      1.0 for real residue pairs, 0.0 for padding
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


def glorot_zero_bias(features, name):
    return nn.Dense(features, use_bias=False, name=name)


class GatedRowAttention(nn.Module):
    """Row-wise gated self attention with a pair bias shared by all rows."""

    heads: int
    dim: int

    @nn.compact
    def __call__(self, x, bias, mask):
        # x [R, N, C]; bias [H, N, N]; mask [R, N]
        r, n, c = x.shape
        shape = (r, n, self.heads, self.dim)
        q = glorot_zero_bias(self.heads * self.dim, "q")(x).reshape(shape) * self.dim ** -0.5
        k = glorot_zero_bias(self.heads * self.dim, "k")(x).reshape(shape)
        v = glorot_zero_bias(self.heads * self.dim, "v")(x).reshape(shape)
        g = jax.nn.sigmoid(nn.Dense(self.heads * self.dim, name="gate", bias_init=nn.initializers.ones)(x))

        a = jnp.einsum("rihd,rjhd->rhij", q, k) + bias[None]
        a = a + 1e9 * (mask - 1.0)[:, None, None, :]
        a = jax.nn.softmax(a, axis=-1)
        o = jnp.einsum("rhij,rjhd->rihd", a, v).reshape(r, n, -1)
        return nn.Dense(c, name="out")(o * g)


class TriangleAttention(nn.Module):
    heads: int = 2
    dim: int = 8
    orientation: str = "starting"

    @nn.compact
    def __call__(self, pair, mask):
        assert self.orientation in ("starting", "ending")
        if self.orientation == "ending":
            pair = jnp.swapaxes(pair, 0, 1)
            mask = jnp.swapaxes(mask, 0, 1)
        z = nn.LayerNorm(name="norm")(pair)
        bias = glorot_zero_bias(self.heads, "bias")(z)  # [j, k, H]
        bias = jnp.transpose(bias, (2, 0, 1))
        out = GatedRowAttention(self.heads, self.dim, name="attn")(z, bias, mask)
        if self.orientation == "ending":
            out = jnp.swapaxes(out, 0, 1)
        return out


class PairTransition(nn.Module):
    factor: int = 4

    @nn.compact
    def __call__(self, pair):
        c = pair.shape[-1]
        h = nn.Dense(self.factor * c)(nn.LayerNorm()(pair))
        return nn.Dense(c)(jax.nn.relu(h))


class PairStack(nn.Module):
    layers: int = 2

    @nn.compact
    def __call__(self, pair, mask):
        for _ in range(self.layers):
            pair = pair + TriangleAttention(orientation="starting")(pair, mask)
            pair = pair + TriangleAttention(orientation="ending")(pair, mask)
            pair = pair + PairTransition()(pair)
        return pair
