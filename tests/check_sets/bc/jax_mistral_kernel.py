"""JAX port of Mistral-style local attention, used in our protein language model."""
import dataclasses
import math

import jax
import jax.numpy as jnp

AMINO = "ACDEFGHIKLMNPQRSTVWY"


@dataclasses.dataclass(frozen=True)
class LocalConfig:
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 8
    window: int = 3  # number of residues a residue can see, itself included

    @property
    def rep(self) -> int:
        return self.n_heads // self.n_kv


def encode(seq: str) -> jax.Array:
    return jnp.array([AMINO.index(c) for c in seq])


def local_mask(length: int, window: int) -> jax.Array:
    """True where row i may read column j: j in (i - window, i]."""
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    return (j <= i) & (i - j <= window)


def local_gqa(cfg: LocalConfig, q, k, v):
    """q [B, L, n_heads, D]; k, v [B, L, n_kv, D] -> [B, L, n_heads, D].

    Query heads g*rep .. (g+1)*rep - 1 read kv head g.
    """
    B, L, H, D = q.shape
    q = jnp.transpose(q, (0, 2, 1, 3))
    k = jnp.transpose(k, (0, 2, 1, 3))
    v = jnp.transpose(v, (0, 2, 1, 3))
    if cfg.rep > 1:
        k = jnp.repeat(k, cfg.rep, axis=2).reshape(B, H, L, D)
        v = jnp.repeat(v, cfg.rep, axis=2).reshape(B, H, L, D)
    scores = jnp.matmul(q, jnp.swapaxes(k, 2, 3)) / math.sqrt(D)
    scores = jnp.where(local_mask(L, cfg.window), scores, -jnp.inf)
    out = jnp.matmul(jax.nn.softmax(scores, axis=-1), v)
    return jnp.transpose(out, (0, 2, 1, 3))


def residue_layer(cfg: LocalConfig, params, x):
    """params: dict with wq, wk, wv, wo; x [B, L, E]."""
    B, L, _ = x.shape
    q = (x @ params["wq"]).reshape(B, L, cfg.n_heads, cfg.head_dim)
    k = (x @ params["wk"]).reshape(B, L, cfg.n_kv, cfg.head_dim)
    v = (x @ params["wv"]).reshape(B, L, cfg.n_kv, cfg.head_dim)
    return x + local_gqa(cfg, q, k, v).reshape(B, L, -1) @ params["wo"]
