"""Multihead attention pooling head (MAP) of big_vision's ViT, written out in flax.linen.

A learned probe attends over the patch tokens, followed by a residual MLP.  Unlike the original
the attention is spelled out (no nn.MultiHeadDotProductAttention) since we log the maps.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class MAPHead(nn.Module):
    num_heads: int = 4
    mlp_dim: Optional[int] = None
    return_maps: bool = False

    @nn.compact
    def __call__(self, x):
        # x: [N, L, D] patch tokens
        n, _, d = x.shape
        probe = self.param("probe", nn.initializers.xavier_uniform(), (1, 1, d), x.dtype)
        probe = jnp.tile(probe, [n, 1, 1])

        head_dim = d // self.num_heads
        heads = lambda name: nn.DenseGeneral((self.num_heads, head_dim), name=name)
        q = heads("query")(probe)                 # [N, 1, H, E]
        k = heads("key")(x)                       # [N, L, H, E]
        v = heads("value")(x)

        logits = jnp.einsum("nqhe,nlhe->nhql", q, k) / jnp.sqrt(head_dim)
        maps = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("nhql,nlhe->nqhe", maps, v)
        y = nn.DenseGeneral(d, axis=(-2, -1), name="out")(y)

        z = nn.LayerNorm()(y)
        z = nn.Dense(self.mlp_dim or 4 * d)(z)
        z = nn.Dense(d)(nn.gelu(z))
        pooled = (y + z)[:, 0]
        if self.return_maps:
            return pooled, maps[:, :, 0]
        return pooled


if __name__ == "__main__":
    head = MAPHead(num_heads=2, return_maps=True)
    tokens = jax.random.normal(jax.random.PRNGKey(0), (3, 9, 16))
    params = head.init(jax.random.PRNGKey(1), tokens)
    pooled, maps = head.apply(params, tokens)
    print(pooled.shape, maps.sum(-1))
