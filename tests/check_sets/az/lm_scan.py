"""A small decoder-only language model in JAX, no framework.

Parameters are a plain pytree; the layers' parameters are stacked on a leading axis so
that the body compiles once under `lax.scan`.

Axis letters in the einsums:
  b batch, t query time, s key time, c model, n kv heads, g queries per kv head, h head dim
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Hyper(NamedTuple):
    vocab: int = 256
    width: int = 64
    layers: int = 3
    q_heads: int = 8
    kv_heads: int = 2
    ff: int = 176
    rope_base: float = 10_000.0

    @property
    def head_dim(self):
        return self.width // self.q_heads


def init(key, hp: Hyper):
    ks = iter(jax.random.split(key, 10))
    L, C, h = hp.layers, hp.width, hp.head_dim
    g = hp.q_heads // hp.kv_heads

    def dense(shape, fan_in):
        return jax.random.normal(next(ks), shape) * fan_in ** -0.5

    body = dict(
        wq=dense((L, C, hp.kv_heads, g, h), C),
        wk=dense((L, C, hp.kv_heads, h), C),
        wv=dense((L, C, hp.kv_heads, h), C),
        wo=dense((L, hp.kv_heads, g, h, C), C),
        w_gate=dense((L, C, hp.ff), C),
        w_up=dense((L, C, hp.ff), C),
        w_down=dense((L, hp.ff, C), hp.ff),
        norm_a=jnp.ones((L, C)),
        norm_f=jnp.ones((L, C)),
    )
    return dict(embed=dense((hp.vocab, C), 1), body=body, norm=jnp.ones(C))


def rms(x, g):
    x32 = x.astype(jnp.float32)
    return (x32 * lax.rsqrt((x32 ** 2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * g


def rope(x, pos, base):
    """x [b, t, ..., h], pos [b, t]; channel i turns together with channel i + h/2."""
    half = x.shape[-1] // 2
    freq = base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    ang = pos.astype(jnp.float32)[..., None] * freq
    ang = ang.reshape(pos.shape + (1,) * (x.ndim - 3) + (half,))
    sin, cos = jnp.sin(ang), jnp.cos(ang)
    lo, hi = x[..., :half], x[..., half:]
    return jnp.concatenate([lo * cos - hi * sin, hi * cos + lo * sin], -1).astype(x.dtype)


def attend(p, x, doc_id, pos, hp: Hyper):
    """Causal self-attention over packed rows.

    x [b, t, c].  doc_id [b, t] tells which document a token belongs to, -1 is padding;
    tokens look only at their own document.  pos [b, t] counts from 0 in every document.
    """
    q = jnp.einsum("btc,cngh->btngh", x, p["wq"])
    k = jnp.einsum("bsc,cnh->bsnh", x, p["wk"])
    v = jnp.einsum("bsc,cnh->bsnh", x, p["wv"])
    q, k = rope(q, pos, hp.rope_base), rope(k, pos, hp.rope_base)
    logits = jnp.einsum("btngh,bsnh->bngts", q, k, preferred_element_type=jnp.float32)
    logits = logits * hp.head_dim ** -0.5
    t = x.shape[1]
    causal = jnp.arange(t)[:, None] >= jnp.arange(t)[None, :]
    same = (doc_id[:, :, None] == doc_id[:, None, :]) & causal
    logits = jnp.where(same[:, None, None], logits, jnp.finfo(jnp.float32).min)
    probs = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
    out = jnp.einsum("bngts,bsnh->btngh", probs, v)
    return jnp.einsum("btngh,nghc->btc", out, p["wo"])


def forward(params, tokens, doc_id, hp: Hyper):
    first = jnp.concatenate(
        [jnp.ones_like(doc_id[:, :1], bool), doc_id[:, 1:] != doc_id[:, :-1]], 1)
    idx = jnp.arange(tokens.shape[1])[None, :]
    pos = idx - lax.cummax(jnp.where(first, idx, 0), axis=1)
    x = params["embed"][tokens]

    def layer(x, p):
        x = x + attend(p, rms(x, p["norm_a"]), doc_id, pos, hp)
        h = rms(x, p["norm_f"])
        x = x + (jax.nn.silu(h @ p["w_gate"]) * (h @ p["w_up"])) @ p["w_down"]
        return x, None

    x, _ = lax.scan(layer, x, params["body"])
    return rms(x, params["norm"]) @ params["embed"].T


@partial(jax.jit, static_argnames="hp")
def loss_fn(params, tokens, doc_id, hp: Hyper):
    logits = forward(params, tokens[:, :-1], doc_id[:, :-1], hp)
    target = tokens[:, 1:]
    keep = (doc_id[:, 1:] == doc_id[:, :-1]) & (doc_id[:, 1:] >= 0)
    logp = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(logp, target[..., None], -1)[..., 0]
    return (nll * keep).sum() / jnp.maximum(keep.sum(), 1)


if __name__ == "__main__":
    hp = Hyper()
    params = init(jax.random.PRNGKey(0), hp)
    toks = jax.random.randint(jax.random.PRNGKey(1), (2, 17), 0, hp.vocab)
    docs = jnp.array([[0] * 9 + [1] * 8, [0] * 12 + [-1] * 5])
    print(loss_fn(params, toks, docs, hp))
