"""ViT encoder block in flax.linen for the chest X-ray triage model.

Pre-norm, heads kept as an axis of the kernels.  Queries and keys are normalised to unit
length per head and multiplied by a learned temperature per head instead of 1/sqrt(d)
(QK-norm, as in ViT-22B / Swin-v2).  Some patches lie outside of the plate: they are
flagged with ``inside == False`` and no token attends to them.
"""
import flax.linen as nn
import jax.numpy as jnp
from jax import nn as jnn


class QKNormAttention(nn.Module):
    num_heads: int

    @nn.compact
    def __call__(self, x, inside=None):
        dim = x.shape[-1]
        head_dim = dim // self.num_heads

        def project(name):
            return nn.DenseGeneral((self.num_heads, head_dim), axis=-1, name=name)(x)

        q, k, v = project("query"), project("key"), project("value")
        q = q / (jnp.linalg.norm(q, axis=-1, keepdims=True) + 1e-6)
        k = k / (jnp.linalg.norm(k, axis=-1, keepdims=True) + 1e-6)
        temperature = self.param("temperature", nn.initializers.constant(10.0), (self.num_heads,))

        logits = jnp.einsum("...qhd,...khd->...hqk", q, k)
        logits = logits * temperature[:, None, None]
        if inside is not None:
            logits = jnp.where(inside[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
        weights = jnn.softmax(logits, axis=-1)
        y = jnp.einsum("...hqk,...khd->...qhd", weights, v)
        return nn.DenseGeneral(dim, axis=(-2, -1), name="out")(y)


class ViTBlock(nn.Module):
    num_heads: int = 4
    mlp_ratio: int = 2
    dropout: float = 0.1

    @nn.compact
    def __call__(self, x, inside=None, train: bool = False):
        y = nn.LayerNorm()(x)
        y = QKNormAttention(self.num_heads)(y, inside)
        y = nn.Dropout(self.dropout, deterministic=not train)(y)
        x = x + y

        y = nn.LayerNorm()(x)
        y = nn.Dense(self.mlp_ratio * x.shape[-1])(y)
        y = nn.gelu(y)
        y = nn.Dense(x.shape[-1])(y)
        y = nn.Dropout(self.dropout, deterministic=not train)(y)
        return x + y
