import flax.linen as nn
import jax
import jax.numpy as jnp


class PortedAttention(nn.Module):
    """Flax port of the released protein language model's attention.

    The released checkpoint has one fused kernel. Its output columns are grouped by head: first
    the query, key and value (head_dim columns each, in this order) of head 0, then those of
    head 1, and so on. Bidirectional; x is [batch, residues, embed].
    """
    embed: int
    heads: int

    @nn.compact
    def __call__(self, x):
        b, n, _ = x.shape
        hd = self.embed // self.heads
        z = nn.Dense(3 * self.embed, name="query_key_value")(x)
        q, k, v = jnp.moveaxis(z.reshape(b, n, 3, self.heads, hd), 2, 0)
        s = jnp.einsum("bihd,bjhd->bhij", q, k) / hd ** 0.5
        w = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bhij,bjhd->bihd", w, v).reshape(b, n, self.embed)
        return nn.Dense(self.embed, name="dense")(y)
