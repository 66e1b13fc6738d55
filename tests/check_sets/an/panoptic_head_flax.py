"""Mask head of the panoptic model (Flax): object queries look at the image features."""
from typing import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp


class HeatMaps(nn.Module):
    """One heat map per query and head.

    queries (B, Q, C), feat (B, H, W, C), pad (B, H, W) True on the border added by batching.
    Returns (B, Q, n_head, H, W); every map is a distribution over the pixels of the image.
    """
    n_head: int
    hidden: int

    @nn.compact
    def __call__(self, queries, feat, pad=None):
        d = self.hidden // self.n_head
        q = nn.Dense(self.hidden, name="q")(queries)
        k = nn.Dense(self.hidden, name="k")(feat)
        q = q.reshape(*q.shape[:2], self.n_head, d)
        k = k.reshape(*k.shape[:3], self.n_head, d)
        w = jnp.einsum("bqnc,bhwnc->bqnhw", q * d ** -0.5, k)
        if pad is not None:
            w = jnp.where(pad[:, None, None], -jnp.inf, w)
        flat = jax.nn.softmax(w.reshape(*w.shape[:2], -1), axis=-1)
        return flat.reshape(w.shape)


def upsample(x, factor=2):
    b, h, w, c = x.shape
    return jax.image.resize(x, (b, h * factor, w * factor, c), "nearest")


class MaskHead(nn.Module):
    n_head: int = 4
    hidden: int = 32
    widths: Sequence[int] = (32, 16)

    @nn.compact
    def __call__(self, queries, feat, pad=None):
        """-> mask logits (B, Q, H', W')"""
        maps = HeatMaps(self.n_head, self.hidden, name="maps")(queries, feat, pad)
        B, Q, n, H, W = maps.shape
        x = maps.transpose(0, 1, 3, 4, 2).reshape(B * Q, H, W, n)
        f = jnp.repeat(feat, Q, axis=0)
        x = jnp.concatenate([f, x], axis=-1)
        for i, c in enumerate(self.widths):
            x = nn.Conv(c, (3, 3), name=f"conv{i}")(x)
            x = nn.relu(nn.LayerNorm(name=f"ln{i}")(x))
            if i:
                x = upsample(x)
        x = nn.Conv(1, (3, 3), name="last")(x)
        return x[..., 0].reshape(B, Q, *x.shape[1:3])


def dice_loss(logits, target):
    p = jax.nn.sigmoid(logits).reshape(*logits.shape[:2], -1)
    t = target.reshape(*target.shape[:2], -1)
    return (1 - (2 * (p * t).sum(-1) + 1) / (p.sum(-1) + t.sum(-1) + 1)).mean()
