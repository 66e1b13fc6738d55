"""Report encoder for the radiology search engine (flax).

Non-causal self attention over the tokens of a report. Reports are padded on the
right to the longest of the batch; padded tokens must not influence the others.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class ReportAttention(nn.Module):
    num_heads: int = 4
    dropout_rate: float = 0.0

    @nn.compact
    def __call__(self, tokens, token_mask: Optional[jax.Array] = None, deterministic: bool = True):
        """tokens [batch, length, features], token_mask [batch, length] (True: token, False: padding)"""
        features = tokens.shape[-1]
        head_dim = features // self.num_heads
        qkv = nn.DenseGeneral((3, self.num_heads, head_dim), name="qkv")(tokens)
        query, key, value = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]

        logits = jnp.einsum("blhd,bmhd->bhlm", query, key) / jnp.sqrt(head_dim)
        if token_mask is not None:
            logits = jnp.where(token_mask[:, None, :, None], logits, jnp.finfo(logits.dtype).min)
        probs = jax.nn.softmax(logits, axis=-1)
        probs = nn.Dropout(self.dropout_rate)(probs, deterministic=deterministic)

        ctx = jnp.einsum("bhlm,bmhd->blhd", probs, value)
        return nn.DenseGeneral(features, axis=(-2, -1), name="out")(ctx)


class ReportEncoder(nn.Module):
    vocab: int = 100
    features: int = 32
    num_heads: int = 4
    layers: int = 2
    max_len: int = 64

    @nn.compact
    def __call__(self, ids, deterministic: bool = True):
        """ids [batch, length] int, 0 is padding. Returns one vector per report [batch, features]."""
        mask = ids > 0
        pos = self.param("pos", nn.initializers.normal(0.02), (self.max_len, self.features))
        x = nn.Embed(self.vocab, self.features)(ids) + pos[: ids.shape[1]]
        for _ in range(self.layers):
            x = x + ReportAttention(self.num_heads)(nn.LayerNorm()(x), mask, deterministic)
            y = nn.gelu(nn.Dense(2 * self.features)(nn.LayerNorm()(x)))
            x = x + nn.Dense(self.features)(y)
        m = mask[..., None].astype(x.dtype)
        return (x * m).sum(1) / jnp.maximum(m.sum(1), 1.0)
