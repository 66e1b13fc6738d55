"""Slot attention in Flax: count the products on a supermarket shelf.

Locatello et al. 2020. Note which axis is normalised: the *slots* compete for
each input feature (softmax over slots), afterwards the weights of a slot are
divided by their sum over the inputs, which makes the update a weighted mean.
"""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class SoftPosition(nn.Module):
    """adds a linear map of (x, y, 1-x, 1-y) to a feature map (B, H, W, C)"""

    @nn.compact
    def __call__(self, f):
        h, w, c = f.shape[1:]
        yy, xx = jnp.meshgrid(jnp.linspace(0, 1, h), jnp.linspace(0, 1, w), indexing="ij")
        grid = jnp.stack([xx, yy, 1 - xx, 1 - yy], -1)
        return f + nn.Dense(c)(grid)


class SlotAttention(nn.Module):
    """(B, N, C) inputs and (B, K, D) initial slots -> (B, K, D) slots, (B, K, N) weights.

    The returned weights are those of the competition (they sum to one over the
    slots for each input); they serve as segmentation masks.
    """
    iters: int = 3
    dim: int = 32
    hidden: int = 64
    eps: float = 1e-8

    @nn.compact
    def __call__(self, inputs, slots):
        inputs = nn.LayerNorm(name="norm_in")(inputs)
        k = nn.Dense(self.dim, use_bias=False, name="k")(inputs)
        v = nn.Dense(self.dim, use_bias=False, name="v")(inputs)
        to_q = nn.Dense(self.dim, use_bias=False, name="q")
        norm_s, norm_m = nn.LayerNorm(name="norm_s"), nn.LayerNorm(name="norm_m")
        gru = nn.GRUCell(features=self.dim, name="gru")
        up, down = nn.Dense(self.hidden, name="up"), nn.Dense(self.dim, name="down")

        compete = None
        for _ in range(self.iters):
            prev = slots
            q = to_q(norm_s(slots)) * self.dim ** -0.5
            logits = jnp.einsum("bkd,bnd->bkn", q, k)
            compete = jax.nn.softmax(logits, axis=1)
            w = compete + self.eps
            w = w / w.sum(axis=-1, keepdims=True)
            update = jnp.einsum("bkn,bnd->bkd", w, v)
            slots, _ = gru(prev, update)
            slots = slots + down(nn.relu(up(norm_m(slots))))
        return slots, compete


class ShelfCounter(nn.Module):
    n_slots: int = 9
    dim: int = 32

    @nn.compact
    def __call__(self, img, rng: Any):
        f = nn.relu(nn.Conv(self.dim, (5, 5))(img))
        f = nn.relu(nn.Conv(self.dim, (5, 5), strides=(2, 2))(f))
        f = SoftPosition()(f)
        f = f.reshape(f.shape[0], -1, self.dim)
        mu = self.param("mu", nn.initializers.normal(1.0), (1, 1, self.dim))
        log_sigma = self.param("log_sigma", nn.initializers.zeros, (1, 1, self.dim))
        noise = jax.random.normal(rng, (img.shape[0], self.n_slots, self.dim))
        slots, masks = SlotAttention(dim=self.dim)(f, mu + jnp.exp(log_sigma) * noise)
        alive = jax.nn.sigmoid(nn.Dense(1)(slots))[..., 0]
        return alive.sum(-1), masks


if __name__ == "__main__":
    r = jax.random.PRNGKey(0)
    m = ShelfCounter()
    x = jnp.zeros((2, 16, 16, 3))
    print(m.apply(m.init(r, x, r), x, r)[0])
