"""Gated attention pooling for multi-instance learning (Ilse, Tomczak & Welling 2018) in flax.linen.

A batch holds several bags padded to the same number of instances: x is (bags, instances, features).
"""
from typing import Optional, Sequence

import jax
import jax.numpy as jnp
import flax.linen as nn


class InstanceEncoder(nn.Module):
    widths: Sequence[int] = (64, 32)

    @nn.compact
    def __call__(self, x):
        for w in self.widths:
            x = nn.relu(nn.Dense(w)(x))
        return x


class GatedAttentionPool(nn.Module):
    """z_n = sum_k a_nk h_nk with the weights of a bag's instances summing to one."""
    hidden: int = 24

    @nn.compact
    def __call__(self, h, mask: Optional[jnp.ndarray] = None):
        v = jnp.tanh(nn.Dense(self.hidden, name="V")(h))
        u = nn.sigmoid(nn.Dense(self.hidden, name="U")(h))
        logit = nn.Dense(1, use_bias=False, name="w")(v * u)      # (bags, instances, 1)
        if mask is not None:
            logit = jnp.where(mask[..., None], logit, -1e9)
        a = jax.nn.softmax(logit, axis=0)
        z = jnp.sum(a * h, axis=1)
        return z, a[..., 0]


class MILClassifier(nn.Module):
    n_classes: int = 2
    widths: Sequence[int] = (64, 32)
    att_hidden: int = 24

    @nn.compact
    def __call__(self, bags, mask=None):
        h = InstanceEncoder(self.widths)(bags)
        z, a = GatedAttentionPool(self.att_hidden, name="pool")(h, mask)
        return nn.Dense(self.n_classes)(z), a


def loss_fn(params, model, bags, mask, labels):
    logits, _ = model.apply(params, bags, mask)
    logp = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logp, labels[:, None], axis=1))
