import flax.linen as nn
import jax
import jax.numpy as jnp


def sinusoid(pos, dim):
    freq = 1.0 / 10000 ** (jnp.arange(0.0, dim, 2.0) / dim)
    a = pos[:, None] * freq[None, :]
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], axis=-1)


def rel_shift(x):
    b, h, q, k = x.shape
    x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (1, 0)))
    x = x.reshape(b, h, k + 1, q)[:, :, 1:]
    return x.reshape(b, h, q, k)


class RelAttention(nn.Module):
    """Transformer-XL: content and position terms with the learned vectors u and v; memory before the segment."""

    heads: int
    dim: int

    @nn.compact
    def __call__(self, x, mem=None):
        # x [batch, qlen, dim]   mem [batch, mlen, dim]
        d = self.dim // self.heads
        cat = x if mem is None else jnp.concatenate([jax.lax.stop_gradient(mem), x], axis=1)
        qlen, klen = x.shape[1], cat.shape[1]

        q = nn.DenseGeneral((self.heads, d), use_bias=False, name="q")(x)
        k = nn.DenseGeneral((self.heads, d), use_bias=False, name="k")(cat)
        v = nn.DenseGeneral((self.heads, d), use_bias=False, name="v")(cat)
        # distances klen-1 ... 0
        r = sinusoid(jnp.arange(klen - 1, -1, -1.0), self.dim)
        r = nn.DenseGeneral((self.heads, d), use_bias=False, name="r")(r)
        u = self.param("u", nn.initializers.normal(0.5), (self.heads, d))
        t = self.param("t", nn.initializers.normal(0.5), (self.heads, d))

        ac = jnp.einsum("bqhd,bkhd->bhqk", q + u, k)
        bd = rel_shift(jnp.einsum("bqhd,khd->bhqk", q + t, r))
        score = (ac + bd) / jnp.sqrt(d)
        see = jnp.arange(klen)[None, :] <= jnp.arange(qlen)[:, None] + (klen - qlen)
        score = jnp.where(see, score, -1e30)
        out = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(score), v)
        out = nn.DenseGeneral(self.dim, axis=(-2, -1), use_bias=False, name="o")(out)
        return nn.LayerNorm(name="ln")(x + out)


class Stack(nn.Module):
    heads: int = 2
    dim: int = 16
    depth: int = 2

    @nn.compact
    def __call__(self, x, mems=None):
        new = []
        for i in range(self.depth):
            new.append(x)
            x = RelAttention(self.heads, self.dim)(x, None if mems is None else mems[i])
            x = x + nn.Dense(self.dim)(nn.gelu(nn.Dense(2 * self.dim)(x)))
        return x, new


if __name__ == "__main__":
    net = Stack()
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 8, 16))
    params = net.init(jax.random.PRNGKey(1), x[:, :4])
    y0, mems = net.apply(params, x[:, :4])
    y1, _ = net.apply(params, x[:, 4:], mems)
    whole, _ = net.apply(params, x)
    print(abs(jnp.concatenate([y0, y1], 1) - whole).max())
