"""Tutorial: a transformer block in Flax, no built-in attention.

nn.DenseGeneral makes the heads for us: a kernel of shape (D, H, d) for the inputs and
(H, d, D) on the way out.
"""
import flax.linen as nn
import jax.numpy as jnp
from jax.nn import softmax


class Reader(nn.Module):
    """Pre-LN block whose tokens read a memory (or themselves).

    x      : (B, N, D)  readers
    memory : (B, M, E)  what is read; None = self-attention over the normalised x
    keep   : (B, M) bool, True = may be read, False = padding; None = all may. With
             self-attention it is (B, N). At least one True per row.
    returns: (B, N, D). Each of the `heads` heads uses softmax(q k^T / sqrt(d)).
    """
    heads: int
    d: int

    @nn.compact
    def __call__(self, x, memory=None, keep=None):
        h = nn.LayerNorm(name="ln_x")(x)
        src = h if memory is None else memory

        q = nn.DenseGeneral((self.heads, self.d), name="query")(h)
        k = nn.DenseGeneral((self.heads, self.d), name="key")(src)
        v = nn.DenseGeneral((self.heads, self.d), name="value")(src)

        s = jnp.einsum("bnhd,bmhd->bnhm", q, k) * self.d ** -0.5
        if keep is not None:
            s = jnp.where(keep[:, None, None, :], s, jnp.finfo(s.dtype).min)
        a = softmax(s, axis=3)
        y = jnp.einsum("bnhm,bmhd->bnhd", a, v)
        x = x + nn.DenseGeneral(x.shape[-1], axis=(-2, -1), name="out")(y)

        f = nn.LayerNorm(name="ln_f")(x)
        f = nn.Dense(4 * x.shape[-1], name="up")(f)
        return x + nn.Dense(x.shape[-1], name="down")(nn.gelu(f))
