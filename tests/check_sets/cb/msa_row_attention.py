"""MSA row-wise gated self-attention with pair bias (AlphaFold 2 supplement, Algorithm 7), in Flax.

Re-implementation for the structural biology reading group; module and
parameter names do not follow DeepMind's so that checkpoints need a mapping.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class MSARowAttention(nn.Module):
    """msa  [S, R, C_m]   S sequences, R residues
    pair [R, R, C_z]   biases the logits of query residue i, key residue j
    mask [S, R]        1.0 where the residue exists

    Residues that do not exist are never attended to (large negative bias of
    1e9, as the original). The output is gated by sigmoid(W_g msa) per head and
    channel, before the output projection. No residual here.
    """
    num_heads: int = 4
    head_dim: int = 8

    @nn.compact
    def __call__(self, msa, pair, mask: Optional[jnp.ndarray] = None):
        H, D = self.num_heads, self.head_dim
        m = nn.LayerNorm(name="norm_msa")(msa)
        z = nn.LayerNorm(name="norm_pair")(pair)

        proj = lambda name, bias=False: nn.DenseGeneral((H, D), use_bias=bias, name=name)
        q = proj("q")(m) * D ** -0.5
        k = proj("k")(m)
        v = proj("v")(m)
        gate = jax.nn.sigmoid(proj("gate", True)(m))

        bias = nn.Dense(H, use_bias=False, name="pair_bias")(z)        # [i, j, H]
        logits = jnp.einsum("sihd,sjhd->shij", q, k)
        logits += jnp.transpose(bias, (2, 0, 1))[None]
        if mask is not None:
            logits += (1e9 * (mask - 1.0))[:, None, None, :]
        weights = jax.nn.softmax(logits, axis=-1)

        out = jnp.einsum("shij,sjhd->sihd", weights, v)
        out = gate * out
        return nn.DenseGeneral(msa.shape[-1], axis=(-2, -1), name="out")(out)


class EvoformerSlice(nn.Module):
    """Just the two sub-blocks we looked at: row attention and the MSA transition."""
    num_heads: int = 4
    head_dim: int = 8
    expand: int = 4

    @nn.compact
    def __call__(self, msa, pair, mask=None):
        msa = msa + MSARowAttention(self.num_heads, self.head_dim)(msa, pair, mask)
        h = nn.LayerNorm()(msa)
        h = nn.Dense(self.expand * msa.shape[-1])(h)
        return msa + nn.Dense(msa.shape[-1])(nn.relu(h))
