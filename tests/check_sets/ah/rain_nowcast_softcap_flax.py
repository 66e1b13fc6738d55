"""Rain nowcasting from radar patches, flax. Scores are soft-capped like Gemma-2: cap * tanh(s / cap).

station_ok: bool [B, N], False for patches outside the radar range; those must not influence anything.
"""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class NowcastConfig:
    dim: int = 32
    heads: int = 4
    depth: int = 2
    attn_logit_cap: float = 5.0
    final_cap: float = 30.0


def soft_cap(x, cap):
    return cap * jnp.tanh(x / cap)


class CappedAttention(nn.Module):
    cfg: NowcastConfig

    @nn.compact
    def __call__(self, x, station_ok=None):
        c = self.cfg
        hd = c.dim // c.heads
        B, N, _ = x.shape
        qkv = nn.Dense(3 * c.dim, use_bias=False, name="qkv")(x)
        q, k, v = jnp.moveaxis(qkv.reshape(B, N, 3, c.heads, hd), 2, 0)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q * hd ** -0.5, k)
        if station_ok is not None:
            scores = jnp.where(station_ok[:, None, None, :], scores, jnp.finfo(scores.dtype).min)
        scores = soft_cap(scores, c.attn_logit_cap)
        w = jax.nn.softmax(scores, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(B, N, c.dim)
        return nn.Dense(c.dim, use_bias=False, name="o")(y)


class GeGLU(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        a = nn.Dense(self.width, use_bias=False)(x)
        b = nn.Dense(self.width, use_bias=False)(x)
        return nn.Dense(d, use_bias=False)(nn.gelu(a) * b)


class NowcastBlock(nn.Module):
    cfg: NowcastConfig

    @nn.compact
    def __call__(self, x, station_ok=None):
        y = CappedAttention(self.cfg, name="attn")(nn.RMSNorm()(x), station_ok)
        x = x + nn.RMSNorm()(y)
        y = GeGLU(2 * self.cfg.dim)(nn.RMSNorm()(x))
        return x + nn.RMSNorm()(y)


class RadarNowcaster(nn.Module):
    cfg: NowcastConfig = NowcastConfig()
    patch: int = 4
    lead_times: int = 6

    @nn.compact
    def __call__(self, radar, station_ok=None):
        """radar [B, H, W, T] -> rain rate [B, N, lead_times]"""
        x = nn.Conv(self.cfg.dim, (self.patch, self.patch), strides=self.patch, padding="VALID")(radar)
        x = x.reshape(x.shape[0], -1, self.cfg.dim)
        x = x + self.param("pos", nn.initializers.normal(0.02), (1, x.shape[1], self.cfg.dim))
        for i in range(self.cfg.depth):
            x = NowcastBlock(self.cfg, name=f"block_{i}")(x, station_ok)
        out = nn.Dense(self.lead_times)(nn.RMSNorm()(x))
        return nn.softplus(soft_cap(out, self.cfg.final_cap))


def csi(pred, obs, thr=1.0):
    hit = jnp.sum((pred >= thr) & (obs >= thr))
    miss = jnp.sum((pred < thr) & (obs >= thr))
    false = jnp.sum((pred >= thr) & (obs < thr))
    return hit / jnp.maximum(hit + miss + false, 1)
