"""Autoregressive melody decoder (Flax): predicts the next note event.

Training is teacher-forced: position t reads events 0..t and predicts event t + 1, so an
event must never depend on later ones.  ``MelodyDecoder`` returns logits [B, T, vocab].
"""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class MelodyConfig:
    vocab: int = 128
    width: int = 32
    heads: int = 4
    depth: int = 2
    max_len: int = 64


class Block(nn.Module):
    cfg: MelodyConfig

    def setup(self):
        c = self.cfg
        self.qkv = nn.DenseGeneral((3, c.heads, c.width // c.heads), use_bias=False)
        self.out = nn.DenseGeneral(c.width, axis=(-2, -1))
        self.ln1, self.ln2 = nn.LayerNorm(), nn.LayerNorm()
        self.up, self.down = nn.Dense(4 * c.width), nn.Dense(c.width)

    def mix(self, x):
        t = x.shape[1]
        q, k, v = jnp.moveaxis(self.qkv(x), 2, 0)
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        visible = jnp.tril(jnp.ones((t, t), dtype=bool), k=1)
        logits = jnp.where(visible, logits, jnp.finfo(logits.dtype).min)
        w = jax.nn.softmax(logits, axis=-1)
        return self.out(jnp.einsum("bhqk,bkhd->bqhd", w, v))

    def __call__(self, x):
        x = x + self.mix(self.ln1(x))
        return x + self.down(nn.gelu(self.up(self.ln2(x))))


class MelodyDecoder(nn.Module):
    cfg: MelodyConfig = MelodyConfig()

    def setup(self):
        c = self.cfg
        self.embed = nn.Embed(c.vocab, c.width)
        self.pos = self.param("pos", nn.initializers.normal(0.02), (c.max_len, c.width))
        self.blocks = [Block(c) for _ in range(c.depth)]
        self.ln = nn.LayerNorm()

    def __call__(self, notes):
        x = self.embed(notes) + self.pos[: notes.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.ln(x))


def loss_fn(params, model, notes):
    logits = model.apply(params, notes[:, :-1])
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, notes[:, 1:, None], axis=-1).mean()
