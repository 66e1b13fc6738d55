"""Causal linear attention, parallel form, for the byte level model."""
import jax
import jax.numpy as jnp
import flax.linen as nn


def positive(x):
    return jax.nn.elu(x) + 1.0


def prefix_mix(q, k, v, eps=1e-6):
    """q, k (T, d), v (T, m) of one head -> (T, m).

    Row t is the average of v[0..t] with weights phi(q_t).phi(k_s).
    """
    fq, fk = positive(q), positive(k)
    kv = jnp.cumsum(fk[:, :, None] * v[:, None, :], axis=0)
    z = jnp.sum(fk, axis=0)
    up = jnp.einsum("td,tdm->tm", fq, kv)
    down = fq @ z
    return up / (down[:, None] + eps)


mix_heads = jax.vmap(prefix_mix, in_axes=(1, 1, 1), out_axes=1)
mix_batch = jax.vmap(mix_heads)


class PrefixMemory(nn.Module):
    heads: int = 4
    dim: int = 64

    @nn.compact
    def __call__(self, x):
        B, T, C = x.shape
        h, d = self.heads, self.dim // self.heads
        q, k, v = (nn.Dense(self.dim, use_bias=False, name=n)(x).reshape(B, T, h, d) for n in "qkv")
        y = mix_batch(q, k, v).reshape(B, T, self.dim)
        gate = jax.nn.sigmoid(nn.Dense(self.dim, name="g")(x))
        return nn.Dense(C, name="o")(y * gate)


class ByteModel(nn.Module):
    depth: int = 2
    width: int = 64

    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(256, self.width)(ids)
        for _ in range(self.depth):
            x = x + PrefixMemory(dim=self.width)(nn.LayerNorm()(x))
            x = x + nn.Dense(self.width)(nn.gelu(nn.Dense(2 * self.width)(nn.LayerNorm()(x))))
        return nn.Dense(256)(x)
