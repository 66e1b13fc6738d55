"""Flax encoder layer for the sentiment notebook (JAX study group)."""
import jax
import jax.numpy as jnp
import flax.linen as nn


class SelfAttention(nn.Module):
    """x: (batch, length, features); valid: (batch, length) with 1 for tokens, 0 for padding.

    Every sentence has at least one token. Padding is never attended to. Scores / sqrt(head width).
    """
    num_heads: int
    features: int

    @nn.compact
    def __call__(self, x, valid):
        head = self.features // self.num_heads
        dense = lambda name: nn.DenseGeneral((self.num_heads, head), name=name)
        q, k, v = dense("query")(x), dense("key")(x), dense("value")(x)
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(head)
        big_neg = jnp.finfo(logits.dtype).min
        logits = jnp.where(valid[:, None, None, :] > 0, logits, big_neg)
        weights = jax.nn.softmax(logits, axis=-1)
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        return nn.DenseGeneral(self.features, axis=(-2, -1), name="out")(out)


class EncoderLayer(nn.Module):
    num_heads: int = 4
    features: int = 32
    hidden: int = 64

    @nn.compact
    def __call__(self, x, valid):
        x = x + SelfAttention(self.num_heads, self.features)(nn.LayerNorm()(x), valid)
        y = nn.Dense(self.hidden)(nn.LayerNorm()(x))
        return x + nn.Dense(self.features)(nn.gelu(y))


class Sentiment(nn.Module):
    """tokens: (batch, length) ids, 0 = padding -> logits (batch, 2) from the mean over real tokens."""
    vocab: int = 100
    features: int = 32

    @nn.compact
    def __call__(self, tokens):
        valid = (tokens != 0).astype(jnp.int32)
        x = nn.Embed(self.vocab, self.features)(tokens)
        for _ in range(2):
            x = EncoderLayer(features=self.features)(x, valid)
        w = valid[..., None].astype(x.dtype)
        return nn.Dense(2)((x * w).sum(1) / w.sum(1))
