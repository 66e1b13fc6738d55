"""Antiphon: neume classification in digitised chant books (Flax linen).

Uses talking heads (Shazeer et al. 2020): the scores are mixed over heads
before the softmax (P_l) and the weights once more after it (P_w).
"""
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = Any
NEUMES = ("punctum", "virga", "podatus", "clivis", "torculus", "porrectus", "scandicus", "climacus")


class TalkingHeads(nn.Module):
    """x [B, L, D], valid [B, L] (1 = a neume, 0 = filler at the end of the stave)."""
    heads: int = 4
    head_dim: int = 8
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: Array, valid: Optional[Array] = None, deterministic: bool = True) -> Array:
        proj = lambda name: nn.DenseGeneral((self.heads, self.head_dim), use_bias=False, name=name)(x)
        q, k, v = proj("q"), proj("k"), proj("v")
        near_identity = lambda key, shape, dtype=jnp.float32: (
            jnp.eye(shape[0], dtype=dtype) + 0.1 * jax.random.normal(key, shape, dtype))
        mix_logits = self.param("mix_logits", near_identity, (self.heads, self.heads))
        mix_weights = self.param("mix_weights", near_identity, (self.heads, self.heads))

        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(self.head_dim)
        logits = jnp.einsum("bhqk,hg->bgqk", logits, mix_logits)
        if valid is not None:        # after the mixing, or the fill value would travel between heads
            logits = jnp.where(valid[:, None, None, :] > 0, logits, jnp.finfo(logits.dtype).min)
        weights = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(v.dtype)
        weights = nn.Dropout(self.dropout)(weights, deterministic=deterministic)
        weights = jnp.einsum("bgqk,gf->bfqk", weights, mix_weights)
        out = jnp.einsum("bfqk,bkfd->bqfd", weights, v)
        return nn.DenseGeneral(x.shape[-1], axis=(-2, -1), name="o")(out)


class ChantBlock(nn.Module):
    heads: int
    head_dim: int
    dropout: float

    @nn.compact
    def __call__(self, x, valid, deterministic):
        y = TalkingHeads(self.heads, self.head_dim, self.dropout)(nn.LayerNorm()(x), valid, deterministic)
        x = x + y
        y = nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(y))


class Antiphon(nn.Module):
    width: int = 32
    layers: int = 2
    heads: int = 4
    dropout: float = 0.1

    @nn.compact
    def __call__(self, patches, pitch, valid, deterministic: bool = True):
        x = nn.Dense(self.width)(patches) + nn.Embed(24, self.width)(pitch)
        for _ in range(self.layers):
            x = ChantBlock(self.heads, self.width // self.heads, self.dropout)(x, valid, deterministic)
        return nn.Dense(len(NEUMES))(nn.LayerNorm()(x))


def loss_fn(params, model, batch, key):
    logits = model.apply({"params": params}, batch["patches"], batch["pitch"], batch["valid"],
                         deterministic=False, rngs={"dropout": key})
    nll = -jnp.take_along_axis(jax.nn.log_softmax(logits), batch["label"][..., None], -1)[..., 0]
    return (nll * batch["valid"]).sum() / jnp.maximum(batch["valid"].sum(), 1)


def main():
    model = Antiphon()
    patches = jnp.zeros((2, 7, 20))
    pitch = jnp.zeros((2, 7), jnp.int32)
    valid = jnp.ones((2, 7))
    params = model.init(jax.random.PRNGKey(3), patches, pitch, valid)["params"]
    n = sum(p.size for p in jax.tree_util.tree_leaves(params))
    print(f"{n} parameters for {len(NEUMES)} neumes")


if __name__ == "__main__":
    main()
