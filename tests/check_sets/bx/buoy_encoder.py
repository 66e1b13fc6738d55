"""Wave-buoy series encoder (Flax linen).

Transformer encoder layer over hourly readings, with the sinusoidal position
table of "Attention Is All You Need":

    PE[p, 2i]   = sin(p / 10000^(2i/d))
    PE[p, 2i+1] = cos(p / 10000^(2i/d))

Gaps in the record are given by `valid` (True = a reading exists).
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


def time_table(length, d):
    pos = jnp.arange(length)[:, None]
    i = jnp.arange(0, d, 2)[None, :]
    angle = pos / jnp.power(10000.0, 2 * i / d)
    table = jnp.zeros((length, d))
    table = table.at[:, 0::2].set(jnp.sin(angle))
    return table.at[:, 1::2].set(jnp.cos(angle))


class BuoyEncoder(nn.Module):
    d: int = 16
    heads: int = 2

    @nn.compact
    def __call__(self, readings, valid):
        b, t, _ = readings.shape
        x = nn.Dense(self.d, name="embed")(readings) + time_table(t, self.d)
        hd = self.d // self.heads
        q = nn.DenseGeneral((self.heads, hd), name="q")(x)
        k = nn.DenseGeneral((self.heads, hd), name="k")(x)
        v = nn.DenseGeneral((self.heads, hd), name="v")(x)
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(hd)
        logits = jnp.where(valid[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
        w = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bqhd", w, v)
        y = nn.DenseGeneral(self.d, axis=(-2, -1), name="o")(y)
        x = nn.LayerNorm()(x + y)
        return x + nn.Dense(self.d, name="ff2")(nn.gelu(nn.Dense(2 * self.d, name="ff1")(x)))


if __name__ == "__main__":
    enc = BuoyEncoder()
    obs = jax.random.normal(jax.random.PRNGKey(0), (2, 7, 3))
    ok = jnp.ones((2, 7), bool)
    params = enc.init(jax.random.PRNGKey(1), obs, ok)
    print(enc.apply(params, obs, ok).shape)
