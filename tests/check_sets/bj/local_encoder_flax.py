"""Local causal encoder for symbolic music (Flax linen).

`LocalSelfAttention` is a sliding-window layer.  ``window`` counts the tokens a
position may look at, the position itself included: with ``window=1`` a token
sees nothing but itself, with ``window=3`` it sees itself and the two before.
The numbers in our configs follow this convention (it is the one of the HF
checkpoints that we import).
"""
from dataclasses import field
from typing import Any, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp


def band(length: int, window: int):
    """Boolean [length, length], True = may attend."""
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    return (j <= i) & (i - j <= window)


class LocalSelfAttention(nn.Module):
    heads: int
    window: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, valid=None):
        """x [B, L, C]; valid optional bool [B, L], True = real token."""
        b, l, c = x.shape
        d = c // self.heads
        proj = lambda name: nn.DenseGeneral((self.heads, d), use_bias=False, name=name, dtype=self.dtype)(x)
        q, k, v = proj("query"), proj("key"), proj("value")
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(d)
        m = band(l, self.window)[None, None]
        if valid is not None:
            m = m & valid[:, None, None, :]
        s = jnp.where(m, s.astype(jnp.float32), -1e30)
        p = jax.nn.softmax(s, axis=-1).astype(self.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", p, v)
        return nn.DenseGeneral(c, axis=(-2, -1), name="out", dtype=self.dtype)(y)


class EncoderBlock(nn.Module):
    heads: int
    window: int

    @nn.compact
    def __call__(self, x, valid=None):
        x = x + LocalSelfAttention(self.heads, self.window, name="attn")(nn.LayerNorm()(x), valid)
        h = nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class MusicEncoder(nn.Module):
    vocab: int
    width: int = 32
    heads: int = 4
    windows: Sequence[int] = field(default_factory=lambda: (4, 16))

    @nn.compact
    def __call__(self, tokens):
        """tokens int [B, L], 0 = padding at the end -> [B, L, vocab]."""
        valid = tokens > 0
        x = nn.Embed(self.vocab, self.width)(tokens)
        for w in self.windows:
            x = EncoderBlock(self.heads, w)(x, valid)
        return nn.Dense(self.vocab)(nn.LayerNorm()(x))


def next_token_loss(params, model, tokens):
    logits = model.apply(params, tokens[:, :-1])
    tgt = tokens[:, 1:]
    ll = jnp.take_along_axis(jax.nn.log_softmax(logits), tgt[..., None], -1)[..., 0]
    w = (tgt > 0).astype(ll.dtype)
    return -(ll * w).sum() / jnp.maximum(w.sum(), 1.0)


if __name__ == "__main__":
    net = MusicEncoder(vocab=50)
    toks = jnp.ones((2, 12), jnp.int32)
    ps = net.init(jax.random.PRNGKey(0), toks)
    print(next_token_loss(ps, net, toks))
