import dataclasses
import math
from typing import Optional

import jax
import jax.numpy as jnp
from jax import Array


def module(cls):
    """frozen dataclass + pytree; fields marked static become aux data"""
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)
    data = [f.name for f in fields if not f.metadata.get("static", False)]
    meta = [f.name for f in fields if f.metadata.get("static", False)]
    return jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=meta)


def static():
    return dataclasses.field(metadata={"static": True})


@module
class Linear:
    weight: Array
    bias: Optional[Array]

    @staticmethod
    def create(key, n_in: int, n_out: int, use_bias: bool = True) -> "Linear":
        lim = 1 / math.sqrt(n_in)
        w = jax.random.uniform(key, (n_out, n_in), minval=-lim, maxval=lim)
        return Linear(w, jnp.zeros(n_out) if use_bias else None)

    def __call__(self, x: Array) -> Array:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


@module
class LayerNorm:
    scale: Array
    eps: float = static()

    def __call__(self, x: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + self.eps) * self.scale


@module
class QKNormAttention:
    """ViT-22B: layer norm on queries and keys per head before the dot product."""

    qkv: Linear
    out: Linear
    q_norm: LayerNorm
    k_norm: LayerNorm
    heads: int = static()

    def __call__(self, x: Array) -> Array:
        n, c = x.shape
        q, k, v = jnp.moveaxis(self.qkv(x).reshape(n, 3, self.heads, c // self.heads), 1, 0)
        q, k = self.q_norm(q), self.k_norm(k)
        att = jnp.einsum("qhd,khd->hqk", q, k) * (q.shape[-1] ** -0.5)
        att = jax.nn.softmax(att, axis=-1)
        return self.out(jnp.einsum("hqk,khd->qhd", att, v).reshape(n, c))


@module
class ParallelBlock:
    """attention and MLP read the same normed input, as in ViT-22B; x is (tokens, dim), vmap over the batch"""

    norm: LayerNorm
    attn: QKNormAttention
    up: Linear
    down: Linear

    def __call__(self, x: Array) -> Array:
        y = self.norm(x)
        return x + self.attn(y) + self.down(jax.nn.gelu(self.up(y)))


def make_block(key: Array, dim: int = 48, heads: int = 4) -> ParallelBlock:
    k1, k2, k3, k4 = jax.random.split(key, 4)
    d = dim // heads
    return ParallelBlock(
        norm=LayerNorm(jnp.ones(dim), 1e-6),
        attn=QKNormAttention(
            Linear.create(k1, dim, 3 * dim, use_bias=False),
            Linear.create(k2, dim, dim),
            LayerNorm(jnp.ones(d), 1e-6),
            LayerNorm(jnp.ones(d), 1e-6),
            heads,
        ),
        up=Linear.create(k3, dim, 4 * dim),
        down=Linear.create(k4, 4 * dim, dim),
    )


def encode(block: ParallelBlock, images_tokens: Array) -> Array:
    """images_tokens (batch, tokens, dim)"""
    return jax.vmap(block)(images_tokens)
