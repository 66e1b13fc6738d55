"""ViT in Flax (linen) that loads PyTorch (timm) checkpoints.

timm keeps one `qkv` Linear whose rows are q of all heads, then k of all heads, then v of
all heads, i.e. [3, heads, head_dim].  We keep that order in the kernel, so converting is
nothing more than a transpose.
"""
import re
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class ViTConfig:
    image: int = 32
    patch: int = 8
    dim: int = 48
    depth: int = 2
    heads: int = 6
    mlp_ratio: int = 4
    classes: int = 10
    attn_drop: float = 0.0
    drop: float = 0.0
    qk_norm: bool = False
    dtype: Any = jnp.float32


class Attention(nn.Module):
    cfg: ViTConfig

    @nn.compact
    def __call__(self, x, *, train: bool = False):
        c = self.cfg
        hd = c.dim // c.heads
        qkv = nn.Dense(3 * c.dim, dtype=c.dtype, name="qkv")(x)
        qkv = qkv.reshape(x.shape[:-1] + (3, c.heads, hd))
        q, k, v = jnp.moveaxis(qkv, -3, 0)                        # each [..., n, heads, hd]
        if c.qk_norm:
            q = nn.LayerNorm(dtype=c.dtype, name="q_norm")(q)
            k = nn.LayerNorm(dtype=c.dtype, name="k_norm")(k)
        s = jnp.einsum("...qhd,...khd->...hqk", q, k).astype(jnp.float32) * hd ** -0.5
        p = jax.nn.softmax(s, axis=-1).astype(c.dtype)
        p = nn.Dropout(c.attn_drop)(p, deterministic=not train)
        y = jnp.einsum("...hqk,...khd->...qhd", p, v)
        y = y.reshape(x.shape[:-1] + (c.dim,))
        y = nn.Dense(c.dim, dtype=c.dtype, name="proj")(y)
        return nn.Dropout(c.drop)(y, deterministic=not train)


class Block(nn.Module):
    cfg: ViTConfig

    @nn.compact
    def __call__(self, x, *, train: bool = False):
        c = self.cfg
        x = x + Attention(c, name="attn")(nn.LayerNorm(epsilon=1e-6, name="norm1")(x), train=train)
        h = nn.LayerNorm(epsilon=1e-6, name="norm2")(x)
        h = nn.Dense(c.dim * c.mlp_ratio, dtype=c.dtype, name="fc1")(h)
        h = nn.gelu(h, approximate=False)
        h = nn.Dense(c.dim, dtype=c.dtype, name="fc2")(h)
        return x + nn.Dropout(c.drop)(h, deterministic=not train)


class VisionTransformer(nn.Module):
    cfg: ViTConfig

    @nn.compact
    def __call__(self, img, *, train: bool = False):
        c = self.cfg
        x = nn.Conv(c.dim, (c.patch, c.patch), (c.patch, c.patch), padding="VALID", name="patch_embed")(img)
        x = x.reshape(x.shape[0], -1, c.dim)
        cls = self.param("cls_token", nn.initializers.zeros, (1, 1, c.dim))
        pos = self.param("pos_embed", nn.initializers.normal(0.02), (1, x.shape[1] + 1, c.dim))
        x = jnp.concatenate([jnp.broadcast_to(cls, (x.shape[0], 1, c.dim)), x], 1) + pos
        for i in range(c.depth):
            x = Block(c, name=f"blocks_{i}")(x, train=train)
        x = nn.LayerNorm(epsilon=1e-6, name="norm")(x[:, 0])
        return nn.Dense(c.classes, name="head")(x)


def from_timm(state):
    """Flat dict of NumPy arrays (torch names) -> nested Flax params."""
    params = {}
    for name, w in state.items():
        w = np.asarray(w)
        parts = re.sub(r"blocks\.(\d+)", r"blocks_\1", name).replace("mlp.", "").split(".")
        parts = [p for p in parts if not (p == "proj" and "patch_embed" in parts)]
        leaf = parts[-1]
        if leaf == "weight":
            if w.ndim == 4:
                parts[-1], w = "kernel", w.transpose(2, 3, 1, 0)
            elif w.ndim == 2:
                parts[-1], w = "kernel", w.T
            else:
                parts[-1] = "scale"
        node = params
        for p in parts[:-1]:
            node = node.setdefault(p, {})
        node[parts[-1]] = jnp.asarray(w)
    return {"params": params}


if __name__ == "__main__":
    cfg = ViTConfig(attn_drop=0.1)
    net = VisionTransformer(cfg)
    img = jnp.ones((2, cfg.image, cfg.image, 3))
    variables = net.init(jax.random.PRNGKey(0), img)
    print(net.apply(variables, img).shape)
    print(net.apply(variables, img, train=True, rngs={"dropout": jax.random.PRNGKey(1)}).shape)
