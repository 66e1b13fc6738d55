"""Character level sampling with a fixed size cache (flax.linen).

The cache has room for ``max_len`` characters.  ``index`` is the number of
characters written so far; one call may bring several new ones (prompt) or one.
"""
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax


@dataclass(frozen=True)
class CharConfig:
    vocab: int = 96
    width: int = 64
    heads: int = 4
    layers: int = 2
    max_len: int = 64


class CachedSelfAttention(nn.Module):
    cfg: CharConfig

    @nn.compact
    def __call__(self, x, decode: bool = False):
        B, T, _ = x.shape
        H, D = self.cfg.heads, self.cfg.width // self.cfg.heads
        proj = lambda name: nn.DenseGeneral((H, D), use_bias=False, name=name)
        q, k, v = proj("query")(x), proj("key")(x), proj("value")(x)

        start = jnp.zeros((), jnp.int32)
        if decode:
            ready = self.has_variable("cache", "k")
            ck = self.variable("cache", "k", jnp.zeros, (B, self.cfg.max_len, H, D), x.dtype)
            cv = self.variable("cache", "v", jnp.zeros, (B, self.cfg.max_len, H, D), x.dtype)
            idx = self.variable("cache", "index", lambda: jnp.zeros((), jnp.int32))
            if ready:
                start = idx.value
                ck.value = lax.dynamic_update_slice(ck.value, k, (0, start, 0, 0))
                cv.value = lax.dynamic_update_slice(cv.value, v, (0, start, 0, 0))
                idx.value = start + T
                k, v = ck.value, cv.value

        rows = start + jnp.arange(T)
        see = jnp.arange(k.shape[1])[None, :] <= rows[:, None]
        att = jnp.einsum("bqhd,bkhd->bhqk", q * D ** -0.5, k).astype(jnp.float32)
        att = jax.nn.softmax(jnp.where(see, att, -jnp.inf), axis=-1).astype(x.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", att, v)
        return nn.DenseGeneral(self.cfg.width, axis=(-2, -1), use_bias=False, name="out")(y)


class CharLM(nn.Module):
    cfg: CharConfig

    @nn.compact
    def __call__(self, ids, pos, decode: bool = False):
        x = nn.Embed(self.cfg.vocab, self.cfg.width)(ids)
        x = x + nn.Embed(self.cfg.max_len, self.cfg.width)(pos)
        for i in range(self.cfg.layers):
            x = x + CachedSelfAttention(self.cfg, name=f"attn_{i}")(nn.LayerNorm()(x), decode)
            h = nn.gelu(nn.Dense(4 * self.cfg.width)(nn.LayerNorm()(x)))
            x = x + nn.Dense(self.cfg.width)(h)
        return nn.Dense(self.cfg.vocab)(nn.LayerNorm()(x))


def empty_cache(model, params, batch):
    ids = jnp.zeros((batch, 1), jnp.int32)
    _, vars_ = model.apply({"params": params}, ids, ids, decode=True, mutable=["cache"])
    return vars_["cache"]


def generate(model, params, prompt, steps, rng, temperature=1.0, top_k=None):
    """prompt [B, P] -> [B, P + steps]; P + steps must fit in cfg.max_len"""
    B, P = prompt.shape
    assert P + steps <= model.cfg.max_len
    cache = empty_cache(model, params, B)
    pos = jnp.broadcast_to(jnp.arange(P), (B, P))
    logits, vars_ = model.apply({"params": params, "cache": cache}, prompt, pos, decode=True, mutable=["cache"])

    def pick(logits, rng):
        logits = logits / temperature
        if top_k is not None:
            kth = lax.top_k(logits, top_k)[0][..., -1:]
            logits = jnp.where(logits < kth, -jnp.inf, logits)
        return jax.random.categorical(rng, logits)

    def body(carry, rng):
        cache, last, p = carry
        nxt = pick(last, rng)
        logits, vars_ = model.apply({"params": params, "cache": cache}, nxt[:, None], jnp.full((B, 1), p),
                                    decode=True, mutable=["cache"])
        return (vars_["cache"], logits[:, -1], p + 1), nxt

    _, out = lax.scan(body, (vars_["cache"], logits[:, -1], jnp.int32(P)), jax.random.split(rng, steps))
    return jnp.concatenate([prompt, out.T], axis=1)
