"""Attention with logit capping (Gemma 2 style) for packed documents."""
from dataclasses import dataclass
import functools
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class AttnSpec:
    heads: int
    width: int
    cap: float = 5.0

    @property
    def depth(self):
        return self.width // self.heads


def init_params(key, spec: AttnSpec):
    kq, ko = jax.random.split(key)
    s = spec.width ** -0.5
    return {"qkv": s * jax.random.normal(kq, (3, spec.width, spec.heads, spec.depth)),
            "out": s * jax.random.normal(ko, (spec.heads, spec.depth, spec.width))}


def document_bias(doc_id):
    """(B, T) ints -> (B, 1, T, T), 0 where the key is in the query's document and not
    after the query, -inf elsewhere"""
    t = jnp.arange(doc_id.shape[1])
    same = doc_id[:, :, None] == doc_id[:, None, :]
    ok = same & (t[:, None] >= t[None, :])
    return jnp.where(ok, 0.0, -jnp.inf)[:, None]


@functools.partial(jax.jit, static_argnums=0)
def capped_attention(spec: AttnSpec, params, x, bias):
    """x (B, T, width), bias as from document_bias; logits are kept within +-cap"""
    q, k, v = jnp.einsum("btw,iwhd->ibhtd", x, params["qkv"])
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k) * spec.depth ** -0.5
    logits = logits + bias
    logits = spec.cap * jnp.tanh(logits / spec.cap)
    probs = jax.nn.softmax(logits, axis=-1)
    ctx = jnp.einsum("bhqk,bhkd->bhqd", probs, v)
    return jnp.einsum("bhqd,hdw->bqw", ctx, params["out"])


def packed_layer(spec, params, x, doc_id):
    rms = jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    return x + capped_attention(spec, params, x * rms, document_bias(doc_id))
