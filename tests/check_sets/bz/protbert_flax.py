"""Encoder block for amino-acid sequences, flax.linen (fork of an old ProtTrans port).

Pre-norm, multi-head self-attention over residues; `residue_mask` [B, L] is 1 for amino acids and
0 for padding, and padded residues take no part as keys.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class ResidueAttention(nn.Module):
    dim: int
    heads: int

    def setup(self):
        self.wq = nn.Dense(self.dim, use_bias=False)
        self.wk = nn.Dense(self.dim, use_bias=False)
        self.wv = nn.Dense(self.dim, use_bias=False)
        self.wo = nn.Dense(self.dim)

    def __call__(self, x, residue_mask=None):
        B, L, _ = x.shape
        hd = self.dim // self.heads

        def fold(t):
            return t.reshape(B, L, self.heads, hd).transpose(0, 2, 1, 3)

        q, k, v = fold(self.wq(x)), fold(self.wk(x)), fold(self.wv(x))
        att = q @ jnp.swapaxes(k, -1, -2) * hd ** -0.5
        if residue_mask is not None:
            keep = residue_mask.astype(bool)[:, None, :, None]
            att = jnp.where(keep, att, -1e9)
        att = nn.softmax(att, axis=-1)
        y = (att @ v).transpose(0, 2, 1, 3).reshape(B, L, self.dim)
        return self.wo(y)


class EncoderBlock(nn.Module):
    dim: int = 24
    heads: int = 3
    ff: int = 48

    @nn.compact
    def __call__(self, x, residue_mask=None):
        h = nn.LayerNorm()(x)
        x = x + ResidueAttention(self.dim, self.heads)(h, residue_mask)
        h = nn.LayerNorm()(x)
        h = nn.Dense(self.ff)(h)
        h = nn.Dense(self.dim)(nn.gelu(h))
        return x + h


if __name__ == "__main__":
    block = EncoderBlock()
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 8, 24))
    mask = jnp.array([[1] * 8, [1] * 5 + [0] * 3])
    params = block.init(jax.random.PRNGKey(1), x, mask)
    print(block.apply(params, x, mask).shape)
