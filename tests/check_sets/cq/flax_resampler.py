"""Perceiver Resampler (Flamingo) in flax: any number of visual tokens -> a fixed set of latents."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class ResamplerAttention(nn.Module):
    """Latents ask, media tokens *and* latents answer (keys/values are the concatenation).

    scouts: (B, R, D) latents; scenery: (B, M, D) media tokens
    seen: (B, M) bool, True where the media token is real
    """

    n_lanes: int = 4
    lane: int = 8

    @nn.compact
    def __call__(self, scouts, scenery, seen: Optional[jnp.ndarray] = None):
        B, R, D = scouts.shape
        inner = self.n_lanes * self.lane
        scouts = nn.LayerNorm(name="norm_scouts")(scouts)
        scenery = nn.LayerNorm(name="norm_scenery")(scenery)
        both = jnp.concatenate([scenery, scouts], axis=1)

        ask = nn.Dense(inner, use_bias=False, name="ask")(scouts)
        reply = nn.Dense(2 * inner, use_bias=False, name="reply")(both)
        hint, load = jnp.split(reply, 2, axis=-1)
        ask, hint, load = (
            t.reshape(B, t.shape[1], self.n_lanes, self.lane) for t in (ask, hint, load)
        )

        sim = jnp.einsum("brnl,bmnl->bnrm", ask, hint) / jnp.sqrt(self.lane)
        if seen is not None:
            ok = jnp.concatenate([seen, jnp.ones((B, R), dtype=bool)], axis=1)
            sim = jnp.where(ok[:, None, None, :], sim, -jnp.inf)
        mix = jax.nn.softmax(sim, axis=-1)
        out = jnp.einsum("bnrm,bmnl->brnl", mix, load).reshape(B, R, inner)
        return nn.Dense(D, use_bias=False, name="home")(out)


class Resampler(nn.Module):
    n_scouts: int = 5
    depth: int = 2
    n_lanes: int = 4
    lane: int = 8

    @nn.compact
    def __call__(self, scenery, seen=None):
        """(B, M, D) -> (B, n_scouts, D)"""
        B, _, D = scenery.shape
        init = nn.initializers.normal(1.0)
        scouts = self.param("scouts", init, (self.n_scouts, D))
        scouts = jnp.broadcast_to(scouts, (B, self.n_scouts, D))
        for i in range(self.depth):
            att = ResamplerAttention(self.n_lanes, self.lane, name=f"attn_{i}")
            scouts = scouts + att(scouts, scenery, seen)
            h = nn.LayerNorm(name=f"ff_norm_{i}")(scouts)
            h = nn.Dense(4 * D, use_bias=False, name=f"ff_up_{i}")(h)
            scouts = scouts + nn.Dense(D, use_bias=False, name=f"ff_down_{i}")(nn.gelu(h))
        return nn.LayerNorm(name="final")(scouts)
