"""Will the hive swarm tomorrow?  Audio classifier in Flax.

A stack of dilated convolutions is summarised by multi-head attentive pooling: every
head has its own learned query and forms its own weighted mean of the frames.
"""
from dataclasses import dataclass, field
from typing import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class HiveConfig:
    bands: int = 16
    width: int = 32
    heads: int = 4
    dilations: Sequence[int] = field(default=(1, 2, 4))


class DilatedUnit(nn.Module):
    width: int
    dilation: int

    @nn.compact
    def __call__(self, x):
        h = nn.Conv(self.width, (3,), kernel_dilation=(self.dilation,), padding="SAME")(x)
        h = nn.gelu(nn.LayerNorm()(h))
        return x + nn.Dense(self.width)(h)


class HeadPooling(nn.Module):
    """x: [B, T, width], lengths: [B] (>= 1) -> [B, heads * head_dim].

    weights[b, h] is a distribution over the frames of recording b.
    """

    heads: int
    head_dim: int

    @nn.compact
    def __call__(self, x, lengths):
        B, T, _ = x.shape
        seed = self.param("seed", nn.initializers.normal(1.0), (self.heads, self.head_dim))
        k = nn.DenseGeneral((self.heads, self.head_dim), name="key")(x)
        v = nn.DenseGeneral((self.heads, self.head_dim), name="value")(x)
        logits = jnp.einsum("hd,bthd->bht", seed, k) / jnp.sqrt(self.head_dim)
        heard = jnp.arange(T)[None, :] < lengths[:, None]
        logits = jnp.where(heard[:, None, :], logits, -jnp.inf)
        weights = jax.nn.softmax(logits.reshape(B, -1), axis=-1).reshape(B, self.heads, T)
        self.sow("intermediates", "weights", weights)
        return jnp.einsum("bht,bthd->bhd", weights, v).reshape(B, -1)


class SwarmNet(nn.Module):
    cfg: HiveConfig = HiveConfig()

    @nn.compact
    def __call__(self, spec, lengths):
        c = self.cfg
        x = nn.Dense(c.width)(spec)
        for d in c.dilations:
            x = DilatedUnit(c.width, d)(x)
        z = HeadPooling(c.heads, c.width // c.heads)(x, lengths)
        return nn.Dense(1)(nn.LayerNorm()(z))[:, 0]


def bce(logit, label):
    return jnp.mean(jnp.maximum(logit, 0) - logit * label + jnp.log1p(jnp.exp(-jnp.abs(logit))))


def make_loss(model):
    @jax.jit
    def loss(params, spec, lengths, label):
        return bce(model.apply({"params": params}, spec, lengths), label)

    return jax.value_and_grad(loss)


if __name__ == "__main__":
    net = SwarmNet()
    s, n = jax.random.normal(jax.random.PRNGKey(0), (3, 20, 16)), jnp.array([20, 11, 6])
    p = net.init(jax.random.PRNGKey(1), s, n)["params"]
    print(make_loss(net)(p, s, n, jnp.array([1.0, 0.0, 1.0]))[0])
