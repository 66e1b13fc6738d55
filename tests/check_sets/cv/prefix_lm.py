# Prefix tuning for our frozen Swiss-German chat model (flax).
import jax
import jax.numpy as jnp
import flax.linen as nn


class PrefixSelfAttention(nn.Module):
    """Causal self attention with P trained key/value pairs put before the sequence.

    __call__(x, valid=None)
      x      [batch, len, width]
      valid  [batch, len] bool, True for real tokens, False for padding
    A token sees the entire prefix, plus the real tokens up to and including itself.
    """
    width: int = 24
    heads: int = 3
    prefix: int = 5

    @nn.compact
    def __call__(self, x, valid=None):
        d = self.width // self.heads
        L = x.shape[1]
        proj = lambda n: nn.DenseGeneral((self.heads, d), use_bias=False, name=n)
        q, k, v = proj("q")(x), proj("k")(x), proj("v")(x)          # b l h d

        init = nn.initializers.normal(0.5)
        pk = self.param("prefix_k", init, (self.prefix, self.heads, d))
        pv = self.param("prefix_v", init, (self.prefix, self.heads, d))
        glue = lambda p, t: jnp.concatenate([jnp.broadcast_to(p, (x.shape[0],) + p.shape), t], axis=1)
        k, v = glue(pk, k), glue(pv, v)

        # key index j - prefix is the token position; prefix keys have negative positions
        pos = jnp.arange(self.prefix + L) - self.prefix
        see = pos[None, :] <= jnp.arange(L)[:, None]                # [L, P+L]
        see = see[None, None]
        if valid is not None:
            real = jnp.pad(valid, ((0, 0), (self.prefix, 0)), constant_values=True)
            see = see & real[:, None, None, :]

        s = jnp.einsum("blhd,bmhd->bhlm", q, k) / jnp.sqrt(d)
        a = jax.nn.softmax(jnp.where(see, s, -jnp.inf), axis=-1)
        o = jnp.einsum("bhlm,bmhd->blhd", a, v)
        return nn.DenseGeneral(self.width, axis=(-2, -1), use_bias=False, name="o")(o)
