import jax
import jax.numpy as jnp
import flax.linen as nn


class HillDecoder(nn.Module):
    """Causal decoder layer for elevation profiles, ALiBi instead of positions.

    n_heads is a power of two; the slopes are the geometric sequence that starts
    at 2^(-8/n_heads) and has that same number as its ratio (8 heads: 1/2 ... 1/256).
    """
    dim: int
    n_heads: int = 4

    def slopes(self):
        h = jnp.arange(self.n_heads)
        return 2.0 ** (-8.0 * h / self.n_heads)

    @nn.compact
    def __call__(self, x):
        L, d = x.shape[1], self.dim // self.n_heads
        y = nn.RMSNorm()(x)
        q, k, v = (nn.DenseGeneral((self.n_heads, d), use_bias=False, name=c)(y) for c in "qkv")
        i = jnp.arange(L)
        back = i[:, None] - i[None, :]
        s = jnp.einsum("bihd,bjhd->bhij", q, k) / d ** 0.5
        s = s - self.slopes()[None, :, None, None] * back
        s = jnp.where(back >= 0, s, jnp.finfo(s.dtype).min)
        o = jnp.einsum("bhij,bjhd->bihd", nn.softmax(s, axis=-1), v)
        x = x + nn.DenseGeneral(self.dim, axis=(-2, -1), use_bias=False, name="o")(o)
        y = nn.RMSNorm()(x)
        y = nn.silu(nn.Dense(2 * self.dim)(y)) * nn.Dense(2 * self.dim)(y)
        return x + nn.Dense(self.dim)(y)
