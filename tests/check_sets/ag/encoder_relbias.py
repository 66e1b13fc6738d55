"""T5-style encoder in flax.linen."""
import math
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class T5LayerNorm(nn.Module):
    eps: float = 1e-6

    @nn.compact
    def __call__(self, x):
        g = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        var = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
        return (x * jax.lax.rsqrt(var + self.eps)).astype(x.dtype) * g


def relative_bucket(rel, bidirectional=True, num_buckets=32, max_distance=128):
    """rel = key position - query position (any integer array) -> bucket ids"""
    ret = 0
    if bidirectional:
        num_buckets //= 2
        ret += (rel > 0).astype(jnp.int32) * num_buckets
        n = jnp.abs(rel)
    else:
        n = -jnp.minimum(rel, 0)
    max_exact = num_buckets // 2
    is_small = n < max_exact
    large = max_exact + (
        jnp.log(jnp.maximum(n, 1) / max_exact + jnp.finfo(jnp.float32).eps)
        / math.log(max_distance / max_exact)
        * (num_buckets - max_exact)
    ).astype(jnp.int32)
    large = jnp.minimum(large, num_buckets - 1)
    return ret + jnp.where(is_small, n, large)


class RelativeBias(nn.Module):
    num_heads: int
    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True

    @nn.compact
    def __call__(self, q_len, k_len):
        rel = jnp.arange(k_len)[None, :] - jnp.arange(q_len)[:, None]
        ids = relative_bucket(rel, self.bidirectional, self.num_buckets, self.max_distance)
        table = self.param("embedding", nn.initializers.normal(0.02),
                           (self.num_buckets, self.num_heads))
        return table[ids].transpose(2, 0, 1)[None]


class T5Attention(nn.Module):
    """As in T5, the logits are not divided by sqrt(head_dim): the factor is folded into the
    initialiser of the query kernel (std = (d_model * head_dim) ** -0.5)."""

    num_heads: int
    head_dim: int
    dropout: float = 0.0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, bias=None, mask: Optional[jax.Array] = None, deterministic=True):
        d_model = x.shape[-1]
        inner = self.num_heads * self.head_dim

        def proj(name, std):
            y = nn.Dense(inner, use_bias=False, dtype=self.dtype, name=name,
                         kernel_init=nn.initializers.normal(std))(x)
            return y.reshape(*x.shape[:-1], self.num_heads, self.head_dim)

        q = proj("q", (d_model * self.head_dim) ** -0.5)
        k = proj("k", d_model ** -0.5)
        v = proj("v", d_model ** -0.5)
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32)
        if bias is not None:
            logits = logits + bias
        if mask is not None:  # [B, K] with 1 for tokens
            logits = jnp.where(mask[:, None, None, :] > 0, logits, jnp.finfo(jnp.float32).min)
        w = nn.softmax(logits, axis=-1).astype(self.dtype)
        w = nn.Dropout(self.dropout)(w, deterministic=deterministic)
        y = jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(*x.shape[:-1], inner)
        return nn.Dense(d_model, use_bias=False, dtype=self.dtype, name="o",
                        kernel_init=nn.initializers.normal(inner ** -0.5))(y)


class Encoder(nn.Module):
    vocab: int
    d_model: int = 32
    num_heads: int = 4
    head_dim: int = 8
    d_ff: int = 64
    layers: int = 2
    dropout: float = 0.1

    @nn.compact
    def __call__(self, ids, mask=None, deterministic=True):
        x = nn.Embed(self.vocab, self.d_model)(ids)
        bias = RelativeBias(self.num_heads)(ids.shape[1], ids.shape[1])
        for i in range(self.layers):
            h = T5LayerNorm()(x)
            x = x + T5Attention(self.num_heads, self.head_dim, self.dropout, name=f"att_{i}")(
                h, bias, mask, deterministic)
            h = nn.Dense(self.d_ff, use_bias=False)(T5LayerNorm()(x))
            x = x + nn.Dense(self.d_model, use_bias=False)(nn.relu(h))
        return T5LayerNorm()(x)


if __name__ == "__main__":
    ids = jnp.array([[5, 6, 7, 0], [3, 4, 5, 6]])
    net = Encoder(20)
    out, _ = net.init_with_output(jax.random.PRNGKey(0), ids, (ids > 0).astype(jnp.int32))
    print(out.shape)
