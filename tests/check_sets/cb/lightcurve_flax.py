"""Variable-star classification from irregular light curves (flax.linen, PLAsTiCC-like data).

Observation = (time, magnitude, error). Times go through a sinusoidal encoding with
learned frequencies; the encoder is a standard pre-LN transformer with scaled
dot-product attention (1/sqrt(head_dim)); padding is excluded everywhere.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class TimeEncoding(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, t):
        w = self.param("freq", lambda k, s: jnp.exp(jax.random.uniform(k, s, minval=-4.0, maxval=2.0)), (self.dim // 2,))
        phase = t[..., None] * w
        return jnp.concatenate([jnp.sin(phase), jnp.cos(phase)], axis=-1)


class Attention(nn.Module):
    """x (B, L, C), observed (B, L) bool -> (B, L, C)"""
    heads: int

    @nn.compact
    def __call__(self, x, observed):
        B, L, C = x.shape
        qkv = nn.Dense(3 * C, name="qkv")(x).reshape(B, L, 3, self.heads, C // self.heads)
        q, k, v = jnp.moveaxis(qkv, 2, 0)          # each (B, L, H, D)
        depth = q.shape[1]
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(depth)
        logits = jnp.where(observed[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
        attn = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bqhd", attn, v)
        return nn.Dense(C, name="out")(y.reshape(B, L, C))


class Block(nn.Module):
    heads: int
    mlp_ratio: int = 2

    @nn.compact
    def __call__(self, x, observed):
        x = x + Attention(self.heads)(nn.LayerNorm()(x), observed)
        h = nn.Dense(self.mlp_ratio * x.shape[-1])(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class LightCurveEncoder(nn.Module):
    n_classes: int
    dim: int = 32
    heads: int = 4
    depth: int = 2

    @nn.compact
    def __call__(self, t, mag, err, observed):
        feats = jnp.stack([mag, err], axis=-1)
        x = nn.Dense(self.dim)(feats) + TimeEncoding(self.dim)(t)
        for _ in range(self.depth):
            x = Block(self.heads)(x, observed)
        w = observed[..., None].astype(x.dtype)
        pooled = (x * w).sum(1) / jnp.maximum(w.sum(1), 1.0)
        return nn.Dense(self.n_classes)(nn.LayerNorm()(pooled))


def main():
    key = jax.random.PRNGKey(0)
    t = jnp.sort(jax.random.uniform(key, (2, 40)) * 100, axis=1)
    mag, err = jax.random.normal(key, (2, 40)), jnp.full((2, 40), 0.1)
    observed = jnp.arange(40)[None] < jnp.array([40, 23])[:, None]
    model = LightCurveEncoder(n_classes=5)
    variables = model.init(key, t, mag, err, observed)
    print(model.apply(variables, t, mag, err, observed))


if __name__ == "__main__":
    main()
