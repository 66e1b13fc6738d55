"""Toy Gemma-2 layer in JAX/flax.linen with logit soft-capping (question: "does jit fuse the tanh?").

    s = q k^T / sqrt(d);   s = cap * tanh(s / cap);   hidden keys -> weight exactly 0;   softmax; @ v

hidden keys: later positions and padding.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class CapAttn(nn.Module):
    heads: int
    hd: int
    cap: float = 50.0

    @nn.compact
    def __call__(self, x, tok_ok):
        """x (B, T, D); tok_ok (B, T) bool, True = token, False = padding at the right end
        (the first token is always real).  Returns (B, T, D)."""
        D = x.shape[-1]
        T = x.shape[1]
        gen = lambda name: nn.DenseGeneral((self.heads, self.hd), use_bias=False, name=name)
        q, k, v = gen("q")(x), gen("k")(x), gen("v")(x)
        s = jnp.einsum("bthd,bshd->bhts", q, k) * self.hd ** -0.5
        see = jnp.tril(jnp.ones((T, T), bool))[None] & tok_ok[:, None, :]
        s = jnp.where(see[:, None], s, -1e30)
        s = self.cap * jnp.tanh(s / self.cap)
        w = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bhts,bshd->bthd", w, v)
        return nn.DenseGeneral(D, axis=(-2, -1), use_bias=False, name="o")(y)


class Layer(nn.Module):
    heads: int = 2
    hd: int = 8
    cap: float = 5.0

    @nn.compact
    def __call__(self, x, tok_ok):
        x = x + CapAttn(self.heads, self.hd, self.cap)(nn.RMSNorm()(x), tok_ok)
        h = nn.RMSNorm()(x)
        g = nn.gelu(nn.Dense(2 * x.shape[-1], name="gate")(h)) * nn.Dense(2 * x.shape[-1], name="up")(h)
        return x + nn.Dense(x.shape[-1], name="down")(g)
