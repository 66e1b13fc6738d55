import flax.linen as nn
import jax
import jax.numpy as jnp


class LatentReader(nn.Module):
    """A fixed set of latents reads a variable number of sensor tokens.

    tokens [batch, n, c]; present [batch, n] bool, False for dropped-out sensors.
    Returns [batch, latents, width]. When no sensor of a sample is present the reading is
    zero and the latents pass through the residual path only.
    """
    latents: int = 8
    width: int = 32
    heads: int = 4

    @nn.compact
    def __call__(self, tokens, present=None):
        b, n, _ = tokens.shape
        hd = self.width // self.heads
        z = self.param("z", nn.initializers.normal(0.5), (self.latents, self.width))
        z = jnp.broadcast_to(z, (b, self.latents, self.width))
        src = nn.LayerNorm(name="ln_src")(tokens)
        q = nn.DenseGeneral((self.heads, hd), name="q")(nn.LayerNorm(name="ln_z")(z))
        k = nn.DenseGeneral((self.heads, hd), name="k")(src)
        v = nn.DenseGeneral((self.heads, hd), name="v")(src)
        s = jnp.einsum("blhd,bnhd->bhln", q / jnp.sqrt(hd), k)
        if present is None:
            w = jax.nn.softmax(s, axis=-1)
        else:
            keep = present[:, None, None, :]
            peak = jnp.max(s, axis=-1, keepdims=True, initial=-1e30, where=keep)
            e = jnp.where(keep, jnp.exp(jnp.where(keep, s - peak, 0.0)), 0.0)
            total = e.sum(-1, keepdims=True)
            w = e / jnp.where(total > 0, total, 1.0)
        read = jnp.einsum("bhln,bnhd->blhd", w, v)
        z = z + nn.DenseGeneral(self.width, axis=(-2, -1), use_bias=False, name="o")(read)
        h = nn.LayerNorm(name="ln_ff")(z)
        return z + nn.Dense(self.width)(nn.gelu(nn.Dense(2 * self.width)(h)))
