"""Set Transformer building blocks in flax: MAB and pooling by multihead attention.

    pooled = PMA(dim=32, heads=4, seeds=2).apply(variables, points, present)

`present` is boolean, True on real elements of the set.  Scores are divided by the
square root of the width of a head.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class MAB(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x, y, present: Optional[jnp.ndarray] = None):
        b, n, m = x.shape[0], x.shape[1], y.shape[1]
        hd = self.dim // self.heads
        q = nn.Dense(self.dim, name="fc_q")(x)
        k = nn.Dense(self.dim, name="fc_k")(y)
        v = nn.Dense(self.dim, name="fc_v")(y)

        qh = q.reshape(b, n, self.heads, hd)
        kh = k.reshape(b, m, self.heads, hd)
        vh = v.reshape(b, m, self.heads, hd)
        logits = jnp.einsum("bnhd,bmhd->bhnm", qh, kh) / jnp.sqrt(hd)
        if present is not None:
            logits = jnp.where(present[:, None, None, :], logits, -1e9)
        w = jax.nn.softmax(logits, axis=-1)
        self.sow("intermediates", "weights", w)
        # the residual is on the projected query, as in the paper's code
        o = q + jnp.einsum("bhnm,bmhd->bnhd", w, vh).reshape(b, n, self.dim)
        o = nn.LayerNorm(name="ln0")(o)
        o = o + nn.relu(nn.Dense(self.dim, name="fc_o")(o))
        return nn.LayerNorm(name="ln1")(o)


class PMA(nn.Module):
    dim: int
    heads: int
    seeds: int = 1

    @nn.compact
    def __call__(self, x, present=None):
        s = self.param("seed", nn.initializers.xavier_uniform(), (1, self.seeds, self.dim))
        s = jnp.broadcast_to(s, (x.shape[0],) + s.shape[1:])
        x = nn.relu(nn.Dense(self.dim, name="rff")(x))
        return MAB(self.dim, self.heads, name="mab")(s, x, present)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    pts = jax.random.normal(key, (2, 7, 3))
    mod = PMA(dim=32, heads=4, seeds=2)
    var = mod.init(key, pts)
    print(mod.apply(var, pts).shape)
