"""llamalet - a very small llama in flax. Only the attention lives here.

Weights are meant to be loaded from HF checkpoints, therefore: rotate-half RoPE, and
n_heads // n_kv consecutive query heads share one kv head.
"""
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Cfg:
    dim: int = 32
    n_heads: int = 4
    n_kv: int = 2
    theta: float = 1e4

    @property
    def hd(self):
        return self.dim // self.n_heads


def rope(x, theta):
    # x: B T H hd
    hd = x.shape[-1]
    f = 1.0 / theta ** (jnp.arange(0, hd, 2) / hd)
    a = jnp.outer(jnp.arange(x.shape[1]), f)[:, None, :]
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * jnp.cos(a) - x2 * jnp.sin(a), x2 * jnp.cos(a) + x1 * jnp.sin(a)], -1)


class LlamaletAttention(nn.Module):
    cfg: Cfg = Cfg()

    @nn.compact
    def __call__(self, x):
        """x [B, T, dim] -> [B, T, dim], causal."""
        c = self.cfg
        B, T, _ = x.shape
        lin = lambda n, name: nn.Dense(n, use_bias=False, name=name)
        q = lin(c.n_heads * c.hd, "q_proj")(x).reshape(B, T, c.n_heads, c.hd)
        k = lin(c.n_kv * c.hd, "k_proj")(x).reshape(B, T, c.n_kv, c.hd)
        v = lin(c.n_kv * c.hd, "v_proj")(x).reshape(B, T, c.n_kv, c.hd)
        q, k = rope(q, c.theta), rope(k, c.theta)
        g = c.n_heads // c.n_kv
        k, v = (jnp.tile(t, (1, 1, g, 1)) for t in (k, v))
        s = jnp.einsum("bihd,bjhd->bhij", q, k) * c.hd ** -0.5
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, jnp.finfo(s.dtype).min)
        p = jax.nn.softmax(s.astype(jnp.float32), -1).astype(x.dtype)
        y = jnp.einsum("bhij,bjhd->bihd", p, v).reshape(B, T, -1)
        return lin(c.dim, "o_proj")(y)
