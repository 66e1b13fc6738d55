"""SASRec in Flax for next-game recommendation on the board game log.

Histories are padded on the LEFT with item 0; real items start at 1.
"""
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class RecConfig:
    n_items: int = 2000
    max_len: int = 50
    dim: int = 48
    heads: int = 2
    blocks: int = 2
    dropout: float = 0.2


class CausalItemAttention(nn.Module):
    cfg: RecConfig

    @nn.compact
    def __call__(self, x, real, train: bool = False):
        """x [B, L, D]; real bool [B, L]. Position i reads real items at j <= i."""
        cfg = self.cfg
        B, L, D = x.shape
        d = D // cfg.heads

        q = nn.DenseGeneral((cfg.heads, d), name="query")(nn.LayerNorm(name="ln_q")(x))
        k = nn.DenseGeneral((cfg.heads, d), name="key")(x)
        v = nn.DenseGeneral((cfg.heads, d), name="value")(x)

        causal = jnp.tril(jnp.ones((L, L), bool))
        allowed = causal[None] & real[:, None, :]

        logits = jnp.einsum("blhd,bmhd->bhlm", q, k) / jnp.sqrt(d).astype(x.dtype)
        logits = jnp.where(allowed[:, None], logits, jnp.finfo(logits.dtype).min)
        w = jax.nn.softmax(logits, axis=-1)
        # padded positions have nothing to read
        w = jnp.where(allowed.any(-1)[:, None, :, None], w, 0.0)
        w = nn.Dropout(cfg.dropout)(w, deterministic=not train)
        y = jnp.einsum("bhlm,bmhd->blhd", w, v)
        return nn.DenseGeneral(D, axis=(-2, -1), name="out")(y)


class PointWise(nn.Module):
    cfg: RecConfig

    @nn.compact
    def __call__(self, x, train=False):
        h = nn.relu(nn.Dense(self.cfg.dim)(x))
        h = nn.Dropout(self.cfg.dropout)(h, deterministic=not train)
        return nn.Dense(self.cfg.dim)(h)


class SASRec(nn.Module):
    cfg: RecConfig

    def setup(self):
        c = self.cfg
        self.items = nn.Embed(c.n_items + 1, c.dim)
        self.positions = nn.Embed(c.max_len, c.dim)
        self.attn = [CausalItemAttention(c) for _ in range(c.blocks)]
        self.ffn = [PointWise(c) for _ in range(c.blocks)]
        self.norms = [nn.LayerNorm() for _ in range(c.blocks + 1)]
        self.drop = nn.Dropout(c.dropout)

    def encode(self, hist, train=False):
        real = hist > 0
        keep = real[..., None].astype(jnp.float32)
        x = self.items(hist) * self.cfg.dim ** 0.5 + self.positions(jnp.arange(hist.shape[1]))
        x = self.drop(x, deterministic=not train) * keep
        for attn, ffn, norm in zip(self.attn, self.ffn, self.norms):
            x = x + attn(x, real, train)
            x = (x + ffn(norm(x), train)) * keep
        return self.norms[-1](x)

    def __call__(self, hist, candidates, train=False):
        """scores of candidates [B, C] after the last item"""
        h = self.encode(hist, train)[:, -1]
        return jnp.einsum("bd,bcd->bc", h, self.items(candidates))


def bpr_loss(params, model, hist, pos, neg, rng):
    s = model.apply({"params": params}, hist, jnp.stack([pos, neg], 1), True, rngs={"dropout": rng})
    return -jax.nn.log_sigmoid(s[:, 0] - s[:, 1]).mean()


if __name__ == "__main__":
    cfg = RecConfig()
    model = SASRec(cfg)
    hist = jnp.zeros((4, cfg.max_len), jnp.int32).at[:, -5:].set(7)
    v = model.init(jax.random.PRNGKey(0), hist, jnp.ones((4, 3), jnp.int32))
    print(model.apply(v, hist, jnp.arange(12).reshape(4, 3) + 1))
