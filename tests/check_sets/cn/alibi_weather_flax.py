"""Station-series encoder for nowcasting, flax.linen.

Multi-query attention (one key/value head for all query heads) with a symmetric
ALiBi term, because we look both into the past and the future of the window:

    logit[h, i, j] = q_i . k_j / sqrt(d)  -  m_h * |i - j|
    m_h            = 2 ** (-8 * (h + 1) / H),   h = 0 .. H-1,  H a power of two
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class StationAttention(nn.Module):
    dim: int = 32
    heads: int = 4

    @nn.compact
    def __call__(self, x, observed=None):
        """x [B, L, dim]; observed bool [B, L], True where the station reported.

        Missing steps are never read.  If nothing at all was observed the mixed
        value is 0.
        """
        B, L, _ = x.shape
        H, d = self.heads, self.dim // self.heads
        assert H & (H - 1) == 0
        q = nn.DenseGeneral((H, d), name="q")(x)          # [B, L, H, d]
        k = nn.Dense(d, name="k")(x)                      # [B, L, d]
        v = nn.Dense(d, name="v")(x)

        logits = jnp.einsum("blhd,bmd->bhlm", q, k) / d ** 0.5
        t = jnp.arange(L)
        slope = 2.0 ** (-8.0 * jnp.arange(1, H + 1) / H)
        logits = logits - slope[:, None, None] * jnp.abs(t[:, None] - t[None, :])
        if observed is not None:
            ok = observed[:, None, None, :]
            logits = jnp.where(ok, logits, jnp.finfo(logits.dtype).min)
            w = jnp.where(ok, jax.nn.softmax(logits, axis=-1), 0.0)
        else:
            w = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhlm,bmd->blhd", w, v)
        return nn.DenseGeneral(self.dim, axis=(-2, -1), name="o")(y)


class NowcastLayer(nn.Module):
    dim: int = 32
    heads: int = 4

    @nn.compact
    def __call__(self, x, observed=None):
        y = nn.LayerNorm()(x)
        x = x + StationAttention(self.dim, self.heads)(y, observed)
        y = nn.LayerNorm()(x)
        y = nn.Dense(2 * self.dim)(y)
        return x + nn.Dense(self.dim)(nn.gelu(y))


if __name__ == "__main__":
    net = NowcastLayer()
    x = jnp.ones((2, 6, 32))
    p = net.init(jax.random.PRNGKey(0), x)
    print(net.apply(p, x, jnp.array([[1, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 1]], bool)).shape)
