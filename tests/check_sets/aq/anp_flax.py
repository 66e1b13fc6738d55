"""Attentive neural process (Flax linen): deterministic path for station data with gaps."""
import flax.linen as nn
import jax
import jax.numpy as jnp


class MLP(nn.Module):
    widths: tuple

    @nn.compact
    def __call__(self, x):
        for i, w in enumerate(self.widths):
            x = nn.Dense(w)(x)
            if i + 1 < len(self.widths):
                x = nn.gelu(x)
        return x


class CrossAttender(nn.Module):
    """Targets attend to context points.

    x_t [B, T, dx], x_c [B, C, dx], r_c [B, C, D], ctx_mask [B, C] (True = observed).
    A task with an empty context gets zeros before the output projection.
    """
    width: int
    heads: int

    @nn.compact
    def __call__(self, x_t, x_c, r_c, ctx_mask):
        d = self.width // self.heads
        q = nn.DenseGeneral((self.heads, d), name="q")(MLP((self.width, self.width), name="enc")(x_t))
        k = nn.DenseGeneral((self.heads, d), name="k")(MLP((self.width, self.width), name="enc_k")(x_c))
        v = nn.DenseGeneral((self.heads, d), name="v")(r_c)
        s = jnp.einsum("bthd,bchd->bhtc", q, k) / jnp.sqrt(d).astype(q.dtype)
        m = ctx_mask[:, None, None, :]
        s = jnp.where(m, s, -1e30 if s.dtype != jnp.float16 else jnp.finfo(s.dtype).min)
        s = s - jax.lax.stop_gradient(s.max(-1, keepdims=True))
        e = jnp.where(m, jnp.exp(s), 0.0)
        w = e / jnp.maximum(e.sum(-1, keepdims=True), 1e-20)
        o = jnp.einsum("bhtc,bchd->bthd", w, v)
        return nn.DenseGeneral(self.width, axis=(-2, -1), name="out")(o)


class ANP(nn.Module):
    width: int = 32
    heads: int = 4
    dy: int = 1

    @nn.compact
    def __call__(self, x_c, y_c, x_t, ctx_mask):
        r = MLP((self.width, self.width))(jnp.concatenate([x_c, y_c], -1))
        rep = CrossAttender(self.width, self.heads)(x_t, x_c, r, ctx_mask)
        out = MLP((self.width, 2 * self.dy))(jnp.concatenate([x_t, rep], -1))
        mu, raw = jnp.split(out, 2, axis=-1)
        return mu, 0.1 + 0.9 * jax.nn.softplus(raw)


def gaussian_nll(mu, sigma, y):
    return (0.5 * ((y - mu) / sigma) ** 2 + jnp.log(sigma)).mean()
