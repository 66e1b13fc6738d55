"""Differential attention (Ye et al. 2024) for the log-anomaly model, Flax."""
import math

import flax.linen as nn
import jax
import jax.numpy as jnp


def lambda_init(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadRMS(nn.Module):
    eps: float = 1e-5

    @nn.compact
    def __call__(self, x):
        w = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        return w * x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.eps)


class DiffAttention(nn.Module):
    """
    (softmax(Q1 K1^T / sqrt(d)) - lambda softmax(Q2 K2^T / sqrt(d))) V

    d is the width of Q1 (and Q2), V is twice as wide. A per-head norm follows,
    multiplied with the fixed 1 - lambda_init.
    """

    embed: int
    heads: int
    depth: int = 0
    causal: bool = True

    @nn.compact
    def __call__(self, x):
        b, n, _ = x.shape
        d = self.embed // self.heads // 2
        proj = lambda name: nn.Dense(self.embed, use_bias=False, name=name)(x)
        q = proj("q").reshape(b, n, self.heads, 2, d)
        k = proj("k").reshape(b, n, self.heads, 2, d)
        v = proj("v").reshape(b, n, self.heads, 2 * d)

        vec = lambda name: self.param(name, nn.initializers.normal(0.1), (d,))
        l1 = jnp.exp(jnp.sum(vec("lq1") * vec("lk1")))
        l2 = jnp.exp(jnp.sum(vec("lq2") * vec("lk2")))
        lam = l1 - l2 + lambda_init(self.depth)

        s = jnp.einsum("bqhcd,bkhcd->bchqk", q, k) * d ** -0.5
        if self.causal:
            i = jnp.arange(n)
            s = jnp.where(i[:, None] >= i[None, :], s, -jnp.inf)
        a = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(x.dtype)
        a = a[:, 0] - lam * a[:, 1]
        y = jnp.einsum("bhqk,bkhe->bqhe", a, v)
        y = HeadRMS(name="subln")(y) * (1.0 - lambda_init(self.depth))
        return nn.Dense(self.embed, use_bias=False, name="o")(y.reshape(b, n, -1))


class LogEncoder(nn.Module):
    vocab: int = 512
    embed: int = 64
    heads: int = 4
    layers: int = 2

    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(self.vocab, self.embed)(ids)
        x = x + self.param("pos", nn.initializers.normal(0.02), (256, self.embed))[: ids.shape[1]]
        for i in range(self.layers):
            x = x + DiffAttention(self.embed, self.heads, i)(nn.RMSNorm()(x))
            h = nn.RMSNorm()(x)
            x = x + nn.Dense(self.embed)(nn.silu(nn.Dense(2 * self.embed)(h)))
        return nn.Dense(self.vocab)(nn.RMSNorm()(x))
