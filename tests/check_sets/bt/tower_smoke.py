"""Wildfire lookout towers: a pan-tilt camera revisits the same bearing every few minutes.

Attention over the visits of one bearing. Features in bfloat16 on the edge box, logits and
softmax in float32.
"""
from typing import Optional

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct


@struct.dataclass
class TowerConfig:
    width: int = struct.field(pytree_node=False, default=32)
    q_heads: int = struct.field(pytree_node=False, default=4)
    kv_heads: int = struct.field(pytree_node=False, default=2)
    lookback: int = struct.field(pytree_node=False, default=3)   # visits BESIDES the current one
    cap: float = struct.field(pytree_node=False, default=15.0)
    dtype: jnp.dtype = struct.field(pytree_node=False, default=jnp.bfloat16)


class Bearing(nn.Module):
    """Sun angle and hour make mornings and evenings look like smoke; tell the model."""

    cfg: TowerConfig

    @nn.compact
    def __call__(self, azimuth, hour):
        f = jnp.stack([jnp.sin(azimuth), jnp.cos(azimuth), jnp.sin(hour * jnp.pi / 12), jnp.cos(hour * jnp.pi / 12)], -1)
        return nn.Dense(self.cfg.width, dtype=self.cfg.dtype)(f)


def lookback_mask(n: int, lookback: int):
    lag = jnp.arange(n)[:, None] - jnp.arange(n)[None, :]
    return (lag >= 0) & (lag <= lookback)


class TowerAttention(nn.Module):
    """x [B, N, width]; clear [B, N] bool, False = lens covered, frame must not be read.

    Query heads g*r .. g*r+r-1 share kv head g (r = q_heads / kv_heads). Every query head owns
    a sink logit, part of the softmax but without value, so a covered history gives zeros.
    """

    cfg: TowerConfig

    @nn.compact
    def __call__(self, x, clear: Optional[jax.Array] = None):
        c = self.cfg
        b, n, _ = x.shape
        d, r = c.width // c.q_heads, c.q_heads // c.kv_heads
        q = nn.DenseGeneral((c.kv_heads, r, d), use_bias=False, dtype=c.dtype, name="q")(x)
        k = nn.DenseGeneral((c.kv_heads, d), use_bias=False, dtype=c.dtype, name="k")(x)
        v = nn.DenseGeneral((c.kv_heads, d), use_bias=False, dtype=c.dtype, name="v")(x)
        sink = self.param("sink", nn.initializers.zeros, (c.kv_heads, r))

        z = jnp.einsum("bigrd,bjgd->bgrij", q, k, preferred_element_type=jnp.float32) * d ** -0.5
        z = c.cap * jnp.tanh(z / c.cap)
        ok = lookback_mask(n, c.lookback)[None]
        if clear is not None:
            ok = ok & clear[:, None, :]
        z = jnp.where(ok[:, None, None], z, -jnp.inf)
        z = jnp.concatenate([z, jnp.broadcast_to(sink[None, :, :, None, None], z.shape[:-1] + (1,))], -1)
        p = jax.nn.softmax(z, axis=-1)[..., :-1].astype(c.dtype)
        y = jnp.einsum("bgrij,bjgd->bigrd", p, v)
        return nn.DenseGeneral(c.width, axis=(-3, -2, -1), use_bias=False, dtype=c.dtype, name="o")(y)


class SmokeWatch(nn.Module):
    cfg: TowerConfig = TowerConfig()

    @nn.compact
    def __call__(self, crops, azimuth, hour, clear):
        h = nn.Dense(self.cfg.width, dtype=self.cfg.dtype)(crops) + Bearing(self.cfg)(azimuth, hour)
        h = h + TowerAttention(self.cfg)(nn.LayerNorm()(h), clear)
        return nn.sigmoid(nn.Dense(1, dtype=jnp.float32)(h))[..., 0]


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    args = (jax.random.normal(key, (2, 7, 12)), jnp.zeros((2, 7)), jnp.linspace(6, 20, 14).reshape(2, 7),
            jnp.arange(14).reshape(2, 7) % 5 != 0)
    net = SmokeWatch()
    print(net.apply(net.init(key, *args), *args))
