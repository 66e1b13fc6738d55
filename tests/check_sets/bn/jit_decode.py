# Single file decode loop, everything static-shaped so that one jit serves all steps.
from __future__ import annotations
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class HP(NamedTuple):
    d: int = 32
    n_q: int = 4
    n_kv: int = 2
    hd: int = 8
    cap: float = 50.0      # logits are squashed to (-cap, cap) before masking
    max_seq: int = 24
    theta: float = 10_000.0


class Cache(NamedTuple):
    k: Array               # [B, max_seq, n_kv, hd], rotated
    v: Array
    length: Array          # int32 scalar: tokens already inside

    @staticmethod
    def zeros(hp: HP, b: int) -> Cache:
        s = (b, hp.max_seq, hp.n_kv, hp.hd)
        return Cache(jnp.zeros(s), jnp.zeros(s), jnp.int32(0))


def init(key: Array, hp: HP) -> dict[str, Array]:
    a, b, c, d = jax.random.split(key, 4)
    n = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return dict(wq=n(a, hp.d, hp.n_q, hp.hd), wk=n(b, hp.d, hp.n_kv, hp.hd),
                wv=n(c, hp.d, hp.n_kv, hp.hd), wo=n(d, hp.n_q * hp.hd, hp.d))


def rope(x: Array, pos: Array, theta: float) -> Array:
    # x [B, T, H, hd]; first half / second half are the two parts of a pair
    half = x.shape[-1] // 2
    freq = theta ** (-jnp.arange(half) / half)
    ang = (pos[:, None] * freq)[None, :, None, :]
    x1, x2 = jnp.split(x, 2, -1)
    s, c = jnp.sin(ang), jnp.cos(ang)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


def attention_step(w: dict[str, Array], hp: HP, x: Array, cache: Cache) -> tuple[Array, Cache]:
    """x [B, T, d] are the next T tokens (T may be the whole prompt or 1).

    Slots of the cache at or behind `length + T` are garbage and are never seen;
    token t sees the tokens up to and including itself.
    """
    B, T, _ = x.shape
    pos = cache.length + jnp.arange(T)
    q = rope(jnp.einsum("btd,dhk->bthk", x, w["wq"]), pos, hp.theta)
    k = rope(jnp.einsum("btd,dhk->bthk", x, w["wk"]), pos, hp.theta)
    v = jnp.einsum("btd,dhk->bthk", x, w["wv"])
    o = jnp.zeros_like(cache.length)
    at = (o, cache.length, o, o)
    ck = jax.lax.dynamic_update_slice(cache.k, k.astype(cache.k.dtype), at)
    cv = jax.lax.dynamic_update_slice(cache.v, v.astype(cache.v.dtype), at)

    g = hp.n_q // hp.n_kv
    q = q.reshape(B, T, hp.n_kv, g, hp.hd)
    s = jnp.einsum("btngk,bsnk->bngts", q, ck).astype(jnp.float32) * hp.hd ** -0.5
    s = hp.cap * jnp.tanh(s / hp.cap)
    seen = jnp.arange(hp.max_seq)[None, :] <= pos[:, None]
    s = jnp.where(seen, s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1).astype(cv.dtype)
    o = jnp.einsum("bngts,bsnk->btngk", p, cv).reshape(B, T, -1)
    return o @ w["wo"], Cache(ck, cv, cache.length + T)


@partial(jax.jit, static_argnames="hp")
def one_token(params, hp: HP, tok: Array, caches: tuple[Cache, ...]):
    x = params["emb"][tok][:, None]
    out = []
    for w, c in zip(params["layers"], caches):
        y, c = attention_step(w, hp, x, c)
        x = x + y
        out.append(c)
    return (x[:, 0] @ params["emb"].T).argmax(-1), tuple(out)


def generate(params, hp: HP, first: Array, n: int) -> Array:
    caches = tuple(Cache.zeros(hp, first.shape[0]) for _ in params["layers"])

    def body(carry, _):
        tok, cs = carry
        tok, cs = one_token(params, hp, tok, cs)
        return (tok, cs), tok

    _, toks = jax.lax.scan(body, (first, caches), length=n)
    return toks.T


if __name__ == "__main__":
    hp = HP()
    ks = jax.random.split(jax.random.key(0), 3)
    params = {"emb": jax.random.normal(ks[0], (50, hp.d)), "layers": [init(ks[1], hp), init(ks[2], hp)]}
    print(generate(params, hp, jnp.array([3, 7]), 10))
