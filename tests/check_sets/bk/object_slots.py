"""Object-centric perception for the tabletop arm (Flax linen).

The camera features are binned into a handful of slots.  NB: slots *compete* for
pixels, thus the softmax is over the slots; afterwards every slot takes a weighted
MEAN over the pixels (Locatello et al. 2020, Algorithm 1).
"""
from typing import Tuple

import flax.linen as nn
import jax
import jax.numpy as jnp


def soft_position_grid(hw: Tuple[int, int]) -> jnp.ndarray:
    ys, xs = (jnp.linspace(0.0, 1.0, n) for n in hw)
    g = jnp.stack(jnp.meshgrid(ys, xs, indexing="ij"), axis=-1)
    return jnp.concatenate([g, 1.0 - g], axis=-1).reshape(-1, 4)


class SlotBinding(nn.Module):
    num_slots: int = 5
    slot_dim: int = 32
    iters: int = 3
    eps: float = 1e-8

    @nn.compact
    def __call__(self, pixels: jnp.ndarray, noise: jnp.ndarray):
        """pixels [B, N, F]; noise [B, S, D] standard normal. -> slots, attn [B, S, N]"""
        mu = self.param("mu", nn.initializers.glorot_normal(), (1, 1, self.slot_dim))
        log_sigma = self.param("log_sigma", nn.initializers.zeros, (1, 1, self.slot_dim))
        slots = mu + jnp.exp(log_sigma) * noise

        pixels = nn.LayerNorm(name="norm_in")(pixels)
        k = nn.Dense(self.slot_dim, use_bias=False, name="to_k")(pixels)
        v = nn.Dense(self.slot_dim, use_bias=False, name="to_v")(pixels)
        to_q = nn.Dense(self.slot_dim, use_bias=False, name="to_q")
        norm_s = nn.LayerNorm(name="norm_slots")
        norm_m = nn.LayerNorm(name="norm_mlp")
        gru = nn.GRUCell(self.slot_dim, name="gru")
        up, down = nn.Dense(2 * self.slot_dim, name="up"), nn.Dense(self.slot_dim, name="down")

        attn = None
        for _ in range(self.iters):
            before = slots
            q = to_q(norm_s(slots)) * self.slot_dim ** -0.5
            logits = jnp.einsum("bsd,bnd->bsn", q, k)
            attn = jax.nn.softmax(logits, axis=1)
            w = attn + self.eps
            w = w / jnp.sum(w, axis=-1, keepdims=True)
            updates = jnp.einsum("bsn,bnd->bsd", w, v)
            slots, _ = gru(before, updates)
            slots = slots + down(nn.relu(up(norm_m(slots))))
        return slots, attn


class GraspProposer(nn.Module):
    hw: Tuple[int, int] = (6, 6)

    @nn.compact
    def __call__(self, fmap, noise):
        b = fmap.shape[0]
        x = fmap.reshape(b, self.hw[0] * self.hw[1], -1)
        x = x + nn.Dense(x.shape[-1], name="pos")(soft_position_grid(self.hw))
        slots, attn = SlotBinding(name="binding")(x, noise)
        return nn.Dense(7, name="grasp")(slots), attn      # xyz + quaternion
