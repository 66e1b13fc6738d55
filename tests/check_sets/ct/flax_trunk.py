"""Time-major self-attention in Flax linen (neutrino event sequences)."""
import jax
import jax.numpy as jnp
from flax import linen as nn


class TrunkAttention(nn.Module):
    """
    __call__(x, pad) with
      x   : (L, B, features)   time first
      pad : (L, B) bool or None, True marks PADDING to be left out; every
            event has at least one real hit
    returns (out (L, B, features), weights (B, heads, L, L)); rows of weights
    sum to one over the last axis. Bidirectional.
    """
    features: int = 32
    heads: int = 4
    use_bias: bool = True

    @nn.compact
    def __call__(self, x, pad=None):
        d = self.features // self.heads
        dense = lambda name: nn.DenseGeneral((self.heads, d), use_bias=self.use_bias, name=name)
        # both sides carry the fourth root, so the product carries the root
        q = dense("q")(x) * d ** -0.25
        k = dense("k")(x) * d ** -0.25
        v = dense("v")(x)
        # l: asking position, m: answering position
        logits = jnp.einsum("lbhd,mbhd->bhlm", q, k)
        if pad is not None:
            drop = jnp.transpose(pad)[:, None, None, :]
            logits = jnp.where(drop, -1e30, logits)
        w = jax.nn.softmax(logits, axis=-1)
        o = jnp.einsum("bhlm,mbhd->lbhd", w, v)
        o = nn.DenseGeneral(self.features, axis=(-2, -1), name="o")(o)
        return o, w


def init_trunk(seed=0, length=6, batch=2, features=32):
    """Convenience for notebooks: module and its parameters."""
    m = TrunkAttention(features=features)
    p = m.init(jax.random.PRNGKey(seed), jnp.zeros((length, batch, features)))
    return m, p
