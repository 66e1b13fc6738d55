"""DeiT-ish ViT in Flax linen, trained on CIFAR in a Colab."""
from typing import Any
import flax.linen as nn
import jax
import jax.numpy as jnp


class SelfAttention(nn.Module):
    num_heads: int
    attn_drop: float = 0.0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False):
        B, N, C = x.shape
        dh = C // self.num_heads
        qkv = nn.Dense(3 * C, use_bias=True, dtype=self.dtype, name="qkv")(x)
        qkv = qkv.reshape(B, N, 3, self.num_heads, dh)          # columns: q of all heads, then k, then v
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(dh)
        weights = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(self.dtype)
        weights = nn.Dropout(self.attn_drop)(weights, deterministic=not train)
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(B, N, C)
        return nn.Dense(C, dtype=self.dtype, name="proj")(out)


class Mlp(nn.Module):
    ratio: int = 4

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        return nn.Dense(d)(nn.gelu(nn.Dense(d * self.ratio)(x)))


class Block(nn.Module):
    heads: int
    drop: float

    @nn.compact
    def __call__(self, x, train):
        x = x + SelfAttention(self.heads, self.drop)(nn.LayerNorm()(x), train)
        return x + Mlp()(nn.LayerNorm()(x))


class DeiT(nn.Module):
    dim: int = 48
    depth: int = 2
    heads: int = 4
    patch: int = 4
    classes: int = 10
    drop: float = 0.1

    @nn.compact
    def __call__(self, img, train: bool = False):
        x = nn.Conv(self.dim, (self.patch, self.patch), (self.patch, self.patch), padding="VALID")(img)
        x = x.reshape(x.shape[0], -1, self.dim)
        cls = self.param("cls", nn.initializers.zeros, (1, 1, self.dim))
        dist = self.param("dist", nn.initializers.zeros, (1, 1, self.dim))
        tok = [jnp.broadcast_to(t, (x.shape[0], 1, self.dim)) for t in (cls, dist)]
        x = jnp.concatenate(tok + [x], axis=1)
        x = x + self.param("pos", nn.initializers.normal(0.02), (1, x.shape[1], self.dim))
        for _ in range(self.depth):
            x = Block(self.heads, self.drop)(x, train)
        x = nn.LayerNorm()(x)
        a, b = nn.Dense(self.classes)(x[:, 0]), nn.Dense(self.classes)(x[:, 1])
        return (a, b) if train else (a + b) / 2


def loss_fn(params, model, batch, rng):
    a, b = model.apply({"params": params}, batch["image"], True, rngs={"dropout": rng})
    onehot = jax.nn.one_hot(batch["label"], a.shape[-1])
    hard = -(onehot * jax.nn.log_softmax(a)).sum(-1).mean()
    soft = -(batch["teacher"] * jax.nn.log_softmax(b)).sum(-1).mean()
    return 0.5 * (hard + soft)


if __name__ == "__main__":
    m = DeiT()
    img = jnp.ones((2, 16, 16, 3))
    v = m.init(jax.random.PRNGKey(0), img)
    print(m.apply(v, img).shape)
