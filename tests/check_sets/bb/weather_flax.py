"""Flax decoder for station weather series, grouped queries with ALiBi."""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Cfg:
    width: int = 48
    q_heads: int = 6
    kv_heads: int = 2
    mlp: int = 96
    layers: int = 2


def slopes(n: int) -> np.ndarray:
    """Press et al.: geometric; when n is no power of 2, fill up from the next one."""
    def pow2(m):
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]

    c = 2 ** int(np.floor(np.log2(n)))
    return np.array(pow2(c) + pow2(2 * c)[0::2][: n - c], np.float32)


class AlibiGQA(nn.Module):
    """Causal. x (B, T, width); `observed` (B, T) bool, False where the sensor was silent.

    A silent hour is never a key, except for itself (so each row has a key).
    """
    cfg: Cfg

    @nn.compact
    def __call__(self, x, observed=None):
        c = self.cfg
        hd = c.width // c.q_heads
        q = nn.DenseGeneral((c.q_heads, hd), use_bias=False, name="q")(x)
        k = nn.DenseGeneral((c.kv_heads, hd), use_bias=False, name="k")(x)
        v = nn.DenseGeneral((c.kv_heads, hd), use_bias=False, name="v")(x)
        k = jnp.repeat(k, c.q_heads // c.kv_heads, axis=2)
        v = jnp.repeat(v, c.q_heads // c.kv_heads, axis=2)

        t = jnp.arange(x.shape[1])
        back = t[:, None] - t[None, :]
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / np.sqrt(hd)
        s = s - slopes(c.q_heads)[:, None, None] * back
        keep = (back >= 0)[None]
        if observed is not None:
            keep = keep & (observed[:, None, :] | (back == 0))
        s = jnp.where(keep[:, None], s, -jnp.inf)
        w = jax.nn.softmax(s, axis=-1).astype(x.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", w, v)
        return nn.DenseGeneral(c.width, axis=(-2, -1), name="o")(y)


class Block(nn.Module):
    cfg: Cfg

    @nn.compact
    def __call__(self, x, observed=None):
        x = x + AlibiGQA(self.cfg)(nn.LayerNorm()(x), observed)
        h = nn.gelu(nn.Dense(self.cfg.mlp)(nn.LayerNorm()(x)))
        return x + nn.Dense(self.cfg.width)(h)


class WeatherLM(nn.Module):
    cfg: Cfg = Cfg()
    variables_out: int = 4

    @nn.compact
    def __call__(self, series, observed=None):
        x = nn.Dense(self.cfg.width)(series)
        for _ in range(self.cfg.layers):
            x = Block(self.cfg)(x, observed)
        return nn.Dense(self.variables_out)(nn.LayerNorm()(x))
