"""Transformer encoder layer in Flax (linen), written for the "JAX from zero" meetup.

inputs : [batch, length, features]
mask   : [batch, length] bool, True = token, False = padding (keys there are ignored).
deterministic : True switches all dropout off.

Pre-LN, multi-head self-attention with 1/sqrt(features // heads), residual, MLP, residual.
Output: [batch, length, features].
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class SelfAttention(nn.Module):
    heads: int
    rate: float = 0.1

    @nn.compact
    def __call__(self, x, mask, deterministic=True):
        features = x.shape[-1]
        head_dim = features // self.heads
        dense = lambda name: nn.DenseGeneral((self.heads, head_dim), name=name)
        query, key, value = dense('query')(x), dense('key')(x), dense('value')(x)

        query = query * jax.lax.rsqrt(jnp.array(head_dim, x.dtype))
        logits = jnp.einsum('...qhd,...khd->...hqk', query, key)
        big_neg = jnp.finfo(logits.dtype).min
        logits = jnp.where(mask[:, None, None, :], logits, big_neg)
        probs = jax.nn.softmax(logits)
        probs = nn.Dropout(self.rate)(probs, deterministic=deterministic)
        y = jnp.einsum('...hqk,...khd->...qhd', probs, value)
        return nn.DenseGeneral(features, axis=(-2, -1), name='out')(y)


class EncoderLayer(nn.Module):
    heads: int
    mlp: int
    rate: float = 0.1

    @nn.compact
    def __call__(self, x, mask, deterministic=True):
        y = nn.LayerNorm()(x)
        y = SelfAttention(self.heads, self.rate, name='attn')(y, mask, deterministic)
        x = x + nn.Dropout(self.rate)(y, deterministic=deterministic)
        y = nn.LayerNorm()(x)
        y = nn.Dense(self.mlp)(y)
        y = nn.Dense(x.shape[-1])(nn.gelu(y))
        return x + nn.Dropout(self.rate)(y, deterministic=deterministic)
