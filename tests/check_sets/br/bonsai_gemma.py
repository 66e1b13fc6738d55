"""Pruning-advice language model, attention part (Flax linen).

Rewritten from memory of the Gemma-2 release:
  * scores are capped, cap * tanh(s / cap), and only then masked;
  * the query factor is `query_scalar ** -0.5`, a config value, which need not be the head width;
  * layers alternate between LOCAL (last `window` tokens, the present one included) and GLOBAL;
  * grouped keys/values, query head n reads kv head n // (n_heads // n_kv);
  * rotary embedding in the two-halves layout.

The cache is an explicit pytree: {"k", "v": [B, cache_len, n_kv, head], "end": int32 scalar}.
It is not a ring: `end` may not run over `cache_len`.
"""
import dataclasses
import enum

import flax.linen as nn
import jax
import jax.numpy as jnp

K_MASK = -2.3819763e38


class Kind(enum.Enum):
    GLOBAL = 1
    LOCAL = 2


@dataclasses.dataclass(frozen=True)
class BonsaiConfig:
    width: int = 64
    n_heads: int = 4
    n_kv: int = 2
    head: int = 16
    query_scalar: float = 24.0
    cap: float = 20.0
    window: int = 4
    base: float = 10_000.0
    cache_len: int = 32


def rotate(x, pos, base):
    """x [B, T, N, H], pos [B, T]."""
    half = x.shape[-1] // 2
    scale = base ** (jnp.arange(half) / half)
    ang = pos[..., None].astype(jnp.float32) / scale
    sin, cos = jnp.sin(ang)[:, :, None], jnp.cos(ang)[:, :, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def empty_cache(cfg, batch, dtype=jnp.float32):
    z = jnp.zeros((batch, cfg.cache_len, cfg.n_kv, cfg.head), dtype)
    return {"k": z, "v": z, "end": jnp.zeros((), jnp.int32)}


class BonsaiAttention(nn.Module):
    cfg: BonsaiConfig
    kind: Kind = Kind.GLOBAL

    @nn.compact
    def __call__(self, x, cache=None):
        """x [B, T, width] -> (y [B, T, width], cache).  Causal."""
        c = self.cfg
        B, T, _ = x.shape
        init = nn.initializers.lecun_normal()
        wq = self.param("q_einsum", init, (c.n_heads, c.width, c.head))
        wkv = self.param("kv_einsum", init, (2, c.n_kv, c.width, c.head))
        wo = self.param("o_einsum", init, (c.n_heads, c.head, c.width))

        start = jnp.zeros((), jnp.int32) if cache is None else cache["end"]
        pos = jnp.broadcast_to(start + jnp.arange(T), (B, T))
        q = rotate(jnp.einsum("btd,ndh->btnh", x, wq), pos, c.base) * c.query_scalar ** -0.5
        k, v = jnp.einsum("bsd,ckdh->cbskh", x, wkv)
        k = rotate(k, pos, c.base)
        if cache is not None:
            k = jax.lax.dynamic_update_slice(cache["k"], k, (0, start, 0, 0))
            v = jax.lax.dynamic_update_slice(cache["v"], v, (0, start, 0, 0))
            cache = {"k": k, "v": v, "end": start + T}

        S = k.shape[1]
        qg = q.reshape(B, T, c.n_kv, c.n_heads // c.n_kv, c.head)
        s = jnp.einsum("btkgh,bskh->bkgts", qg, k).astype(jnp.float32)
        s = c.cap * jnp.tanh(s / c.cap)
        age = pos[:, :, None] - jnp.arange(S)[None, None, :]
        ok = age >= 0
        if self.kind is Kind.LOCAL:
            ok = ok & (age < c.window)
        s = jnp.where(ok[:, None, None], s, K_MASK)
        p = jax.nn.softmax(s, axis=-1).astype(v.dtype)
        y = jnp.einsum("bkgts,bskh->btkgh", p, v).reshape(B, T, c.n_heads, c.head)
        return jnp.einsum("btnh,nhd->btd", y, wo), cache


class BonsaiBlock(nn.Module):
    cfg: BonsaiConfig
    kind: Kind

    @nn.compact
    def __call__(self, x, cache=None):
        y, cache = BonsaiAttention(self.cfg, self.kind, name="attn")(nn.RMSNorm()(x), cache)
        x = x + nn.RMSNorm()(y)
        h = nn.RMSNorm()(x)
        gate = nn.gelu(nn.Dense(2 * self.cfg.width, use_bias=False)(h))
        up = nn.Dense(2 * self.cfg.width, use_bias=False)(h)
        return x + nn.RMSNorm()(nn.Dense(self.cfg.width, use_bias=False)(gate * up)), cache


if __name__ == "__main__":
    cfg = BonsaiConfig()
    blk = BonsaiBlock(cfg, Kind.LOCAL)
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 7, cfg.width))
    p = blk.init(jax.random.PRNGKey(1), x)
    full, _ = blk.apply(p, x)
    a, ch = blk.apply(p, x[:, :4], empty_cache(cfg, 2))
    b, ch = blk.apply(p, x[:, 4:], ch)
    print(jnp.abs(full - jnp.concatenate([a, b], 1)).max())
