import jax
import jax.numpy as jnp
import flax.linen as nn


class ExpertLane(nn.Module):
    """Pre-norm block: multi-query self-attention, then a top-1 mixture of experts.

    x (B, L, dim), keep (B, L) bool: True on real events; every row has at least one.
    Padded positions come out as they went in.
    """
    dim: int
    heads: int = 4
    experts: int = 3

    @nn.compact
    def __call__(self, x, keep):
        B, L, _ = x.shape
        d = self.dim // self.heads
        h = nn.LayerNorm()(x)
        q = nn.DenseGeneral((self.heads, d), name="q")(h)
        k = nn.Dense(d, name="k")(h)
        v = nn.Dense(d, name="v")(h)
        s = jnp.einsum("blhd,bmd->bhlm", q, k) * (d ** -0.5)
        s = jnp.where(keep[:, None, None, :], s, jnp.finfo(s.dtype).min)
        p = jax.nn.softmax(s, axis=-1)
        o = jnp.einsum("bhlm,bmd->blhd", p, v)
        a = nn.DenseGeneral(self.dim, axis=(-2, -1), name="o")(o)
        y = x + a

        h = nn.LayerNorm()(y)
        gate = jax.nn.softmax(nn.Dense(self.experts, name="router")(h), axis=-1)
        best = jax.nn.one_hot(jnp.argmax(gate, -1), self.experts)
        w1 = self.param("w1", nn.initializers.lecun_normal(), (self.experts, self.dim, 2 * self.dim))
        w2 = self.param("w2", nn.initializers.lecun_normal(), (self.experts, 2 * self.dim, self.dim))
        z = jax.nn.gelu(jnp.einsum("bld,edf->blef", h, w1))
        z = jnp.einsum("blef,efd->bled", z, w2)
        y = y + jnp.einsum("bled,ble->bld", z, gate * best)
        return jnp.where(keep[..., None], y, x)
