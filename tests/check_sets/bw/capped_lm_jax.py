"""Tiny JAX language model block with capped attention logits.

The logits go through cap * tanh(logits / cap), cap = 5, which keeps bf16 training
stable on our TPU v2 slices. Causal; padded keys (pad == True) are never attended.
Batches are right-padded.
"""
import dataclasses

import jax
import jax.numpy as jnp
from jax import random


@dataclasses.dataclass(frozen=True)
class BlockSpec:
    d_model: int = 32
    n_heads: int = 4
    d_ff: int = 64
    logit_cap: float = 5.0

    @property
    def d_head(self):
        return self.d_model // self.n_heads


def init_block(key, spec):
    ks = random.split(key, 4)
    D, H, E = spec.d_model, spec.n_heads, spec.d_head
    s = D ** -0.5
    return {
        "wqkv": random.normal(ks[0], (3, D, H, E)) * s,
        "wo": random.normal(ks[1], (H, E, D)) * s,
        "w_in": random.normal(ks[2], (D, 2 * spec.d_ff)) * s,
        "w_out": random.normal(ks[3], (spec.d_ff, D)) * spec.d_ff ** -0.5,
        "ln1": jnp.ones(D),
        "ln2": jnp.ones(D),
    }


def layer_norm(x, g):
    mu = x.mean(-1, keepdims=True)
    var = jnp.var(x, -1, keepdims=True)
    return g * (x - mu) * jax.lax.rsqrt(var + 1e-5)


def soft_cap(x, cap):
    return cap * jnp.tanh(x / cap)


def make_bias(pad):
    """[B, L] bool -> additive [B, 1, L, L]"""
    L = pad.shape[1]
    future = jnp.triu(jnp.ones((L, L), bool), 1)
    blocked = future[None] | pad[:, None, :]
    return jnp.where(blocked, -1e30, 0.0)[:, None]


def attention(params, x, bias, spec):
    q, k, v = jnp.einsum("bld,kdhe->kblhe", x, params["wqkv"])
    logits = jnp.einsum("bqhe,bshe->bhqs", q, k) * spec.d_head ** -0.5
    logits = logits + bias
    logits = soft_cap(logits, spec.logit_cap)
    probs = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("bhqs,bshe->bqhe", probs, v)
    return jnp.einsum("bqhe,hed->bqd", out, params["wo"])


def block(params, x, pad, spec=BlockSpec()):
    """x [B, L, d_model], pad [B, L] bool -> [B, L, d_model]"""
    bias = make_bias(pad)
    x = x + attention(params, layer_norm(x, params["ln1"]), bias, spec)
    u, g = jnp.split(layer_norm(x, params["ln2"]) @ params["w_in"], 2, axis=-1)
    return x + (u * jax.nn.silu(g)) @ params["w_out"]


if __name__ == "__main__":
    spec = BlockSpec()
    p = init_block(random.key(0), spec)
    x = random.normal(random.key(1), (2, 6, 32))
    pad = jnp.arange(6)[None, :] >= jnp.array([[6], [4]])
    print(block(p, x, pad, spec).shape)
