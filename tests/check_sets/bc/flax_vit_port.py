"""ViT blocks in Flax that load timm weights (flower classification, 102 classes)."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


def from_timm(sd, prefix):
    """timm state dict (numpy arrays) -> params of PortedAttention.

    timm packs qkv.weight as (3 * heads * head_dim, dim), i.e. all of q, then all of k,
    then all of v. Only transposition is needed here, the packing stays as it is.
    """
    g = lambda n: np.asarray(sd[f"{prefix}.{n}"])
    return {
        "qkv": {"kernel": g("qkv.weight").T, "bias": g("qkv.bias")},
        "proj": {"kernel": g("proj.weight").T, "bias": g("proj.bias")},
    }


class PortedAttention(nn.Module):
    """Self-attention over patches; parameters in timm's packing (see from_timm)."""

    dim: int
    num_heads: int = 4

    @nn.compact
    def __call__(self, x):
        B, N, C = x.shape
        qkv = nn.Dense(3 * self.dim, name="qkv")(x)
        qkv = qkv.reshape(B, N, self.num_heads, 3, C // self.num_heads)
        qkv = jnp.transpose(qkv, (3, 0, 2, 1, 4))
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ jnp.swapaxes(k, -2, -1)) * (C // self.num_heads) ** -0.5
        attn = jax.nn.softmax(attn, axis=-1)
        x = jnp.swapaxes(attn @ v, 1, 2).reshape(B, N, C)
        return nn.Dense(self.dim, name="proj")(x)


class PortedBlock(nn.Module):
    dim: int
    num_heads: int = 4
    mlp_ratio: int = 4

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm(epsilon=1e-6, name="norm1")(x)
        x = x + PortedAttention(self.dim, self.num_heads, name="attn")(h)
        h = nn.LayerNorm(epsilon=1e-6, name="norm2")(x)
        h = nn.Dense(self.dim * self.mlp_ratio, name="fc1")(h)
        return x + nn.Dense(self.dim, name="fc2")(nn.gelu(h, approximate=False))


def patchify(img, p=16):
    B, H, W, C = img.shape
    t = img.reshape(B, H // p, p, W // p, p, C)
    return t.transpose(0, 1, 3, 2, 4, 5).reshape(B, -1, p * p * C)
