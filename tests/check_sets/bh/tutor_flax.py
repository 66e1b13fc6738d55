"""Step-by-step maths tutor, decoder layer in Flax.

Configured by the team's `ml_collections`-like dict; only the fields used here:
  d_model, n_heads, logit_cap (None = off), dtype, dropout
Logits are bounded to (-cap, cap) with tanh for stability in bfloat16.
"""
from dataclasses import dataclass
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class TutorConfig:
    d_model: int = 64
    n_heads: int = 4
    logit_cap: Optional[float] = 5.0
    dropout: float = 0.0
    vocab: int = 128
    layers: int = 2

    @property
    def head_dim(self):
        return self.d_model // self.n_heads


class CappedSelfAttention(nn.Module):
    """x (B, L, D) -> (B, L, D).

    Token t attends to tokens 0..t; `is_text` (B, L) bool, False for padding,
    which is never attended. Position 0 is always text (BOS).
    """
    cfg: TutorConfig

    @nn.compact
    def __call__(self, x, is_text=None, deterministic=True):
        c = self.cfg
        proj = lambda name: nn.DenseGeneral((c.n_heads, c.head_dim), use_bias=False, name=name)
        q, k, v = proj("query")(x), proj("key")(x), proj("value")(x)
        length = x.shape[1]

        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(c.head_dim)
        logits = logits.astype(jnp.float32)
        allowed = jnp.tril(jnp.ones((length, length), bool))[None, None]
        if is_text is not None:
            allowed = allowed & is_text[:, None, None, :]
        logits = jnp.where(allowed, logits, -1e30)
        if c.logit_cap is not None:
            logits = c.logit_cap * jnp.tanh(logits / c.logit_cap)

        probs = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
        probs = nn.Dropout(c.dropout)(probs, deterministic=deterministic)
        out = jnp.einsum("bhqk,bkhd->bqhd", probs, v)
        return nn.DenseGeneral(c.d_model, axis=(-2, -1), use_bias=False, name="out")(out)


class TutorLayer(nn.Module):
    cfg: TutorConfig

    @nn.compact
    def __call__(self, x, is_text=None, deterministic=True):
        h = nn.RMSNorm()(x)
        x = x + CappedSelfAttention(self.cfg)(h, is_text, deterministic)
        h = nn.Dense(4 * self.cfg.d_model)(nn.RMSNorm()(x))
        return x + nn.Dense(self.cfg.d_model)(nn.silu(h))


class Tutor(nn.Module):
    cfg: TutorConfig = TutorConfig()

    @nn.compact
    def __call__(self, tokens, deterministic=True):
        emb = nn.Embed(self.cfg.vocab, self.cfg.d_model)
        pos = self.param("pos", nn.initializers.normal(0.02), (512, self.cfg.d_model))
        x = emb(tokens) + pos[: tokens.shape[1]]
        is_text = (tokens != 0).at[:, 0].set(True)
        for _ in range(self.cfg.layers):
            x = TutorLayer(self.cfg)(x, is_text, deterministic)
        return emb.attend(nn.RMSNorm()(x))


if __name__ == "__main__":
    t = jnp.array([[1, 5, 9, 9, 0, 0], [1, 2, 3, 4, 5, 6]])
    m = Tutor()
    print(m.apply(m.init(jax.random.PRNGKey(0), t), t).shape)
