"""Fusion-in-decoder reader: the answer decoder looks into all passages at once."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class PassageCrossAttention(nn.Module):
    """answer [B, T, C] looks at passages [B, P, S, C].

    passage_mask [B, P, S] : 1 = token, 0 = padding.
    passage_bias [B, P]    : retriever log-probability, added to all logits of a passage.
    All P*S tokens share one softmax.
    """
    num_heads: int
    head_dim: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, answer, passages, passage_mask, passage_bias=None):
        B, P, S, C = passages.shape
        flat = passages.reshape(B, P * S, C)
        proj = lambda name: nn.DenseGeneral((self.num_heads, self.head_dim), use_bias=False,
                                            dtype=self.dtype, name=name)
        q = proj("query")(answer) / jnp.sqrt(self.head_dim).astype(self.dtype)
        k = proj("key")(flat)
        v = proj("value")(flat)
        logits = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32)
        if passage_bias is not None:
            logits += jnp.repeat(passage_bias, S, axis=1)[:, None, None, :]
        alive = passage_mask.reshape(B, 1, 1, P * S) > 0
        logits = jnp.where(alive, logits, -jnp.inf)
        top = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
        top = jnp.where(jnp.isfinite(top), top, 0.0)
        e = jnp.exp(logits - top)
        w = e / jnp.maximum(e.sum(-1, keepdims=True), 1e-30)    # question without passages -> 0
        mixed = jnp.einsum("bhts,bshd->bthd", w.astype(self.dtype), v)
        return nn.DenseGeneral(C, axis=(-2, -1), use_bias=False, dtype=self.dtype, name="out")(mixed)


class ReaderBlock(nn.Module):
    num_heads: int
    head_dim: int
    mlp: int = 64

    @nn.compact
    def __call__(self, answer, passages, passage_mask, passage_bias=None):
        h = nn.LayerNorm()(answer)
        answer = answer + PassageCrossAttention(self.num_heads, self.head_dim)(
            h, passages, passage_mask, passage_bias)
        h = nn.LayerNorm()(answer)
        return answer + nn.Dense(answer.shape[-1])(nn.gelu(nn.Dense(self.mlp)(h)))
