"""Music Transformer: relative self-attention with the skewing trick (Huang et al. 2018), Flax."""
import flax.linen as nn
import jax
import jax.numpy as jnp


def skew(qe):
    """[B, H, T, T] whose last axis is distance -(T-1) .. 0  ->  [B, H, T, T] with last axis = key.

    Only entries with key <= query are meaningful afterwards.
    """
    b, h, t, _ = qe.shape
    qe = jnp.pad(qe, ((0, 0), (0, 0), (0, 0), (1, 0)))
    qe = qe.reshape(b, h, t + 1, t)
    return qe[:, :, 1:, :]


class RelativeGlobalAttention(nn.Module):
    heads: int
    max_len: int
    drop: float = 0.1

    @nn.compact
    def __call__(self, x, *, train: bool):
        """Causal attention over events x [B, T, D]."""
        B, T, D = x.shape
        d = D // self.heads
        assert T <= self.max_len
        E = self.param("E", nn.initializers.normal(0.02), (self.heads, self.max_len, d))

        def heads(name):
            return nn.Dense(D, name=name)(x).reshape(B, T, self.heads, d).transpose(0, 2, 1, 3)

        q, k, v = heads("wq"), heads("wk"), heads("wv")
        rel = jnp.einsum("bhtd,hsd->bhts", q, E[:, self.max_len - T:])
        s_rel = skew(rel)
        logits = (jnp.matmul(q, k.swapaxes(-1, -2)) + s_rel) / jnp.sqrt(d).astype(x.dtype)
        causal = jnp.tril(jnp.ones((T, T), dtype=bool))
        logits = jnp.where(causal, logits, -1e9)
        att = nn.softmax(logits, axis=-1)
        att = nn.Dropout(self.drop)(att, deterministic=not train)
        y = jnp.matmul(att, v).transpose(0, 2, 1, 3).reshape(B, T, D)
        return nn.Dense(D, name="wo")(y)


class Block(nn.Module):
    heads: int
    max_len: int

    @nn.compact
    def __call__(self, x, *, train=False):
        x = x + RelativeGlobalAttention(self.heads, self.max_len)(nn.LayerNorm()(x), train=train)
        h = nn.relu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1])(h)


class MusicTransformer(nn.Module):
    n_events: int = 388
    dim: int = 256
    heads: int = 8
    depth: int = 6
    max_len: int = 2048

    @nn.compact
    def __call__(self, tokens, *, train=False):
        x = nn.Embed(self.n_events, self.dim)(tokens)
        for _ in range(self.depth):
            x = Block(self.heads, self.max_len)(x, train=train)
        return nn.Dense(self.n_events)(nn.LayerNorm()(x))
