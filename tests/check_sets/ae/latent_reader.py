import flax.linen as nn
import jax
import jax.numpy as jnp


class LatentReader(nn.Module):
    """Perceiver-style read: `latents` learned queries attend to a long padded input.

    tokens [B, N, F], lengths [B] (>= 1) -> [B, latents, width]
    """
    latents: int
    width: int
    heads: int = 4
    rate: float = 0.1
    dtype: jnp.dtype = jnp.bfloat16

    @nn.compact
    def __call__(self, tokens, lengths, deterministic=True):
        seeds = self.param("seeds", nn.initializers.truncated_normal(0.02), (self.latents, self.width))
        d = self.width // self.heads
        src = nn.LayerNorm(dtype=self.dtype)(tokens)
        q = nn.DenseGeneral((self.heads, d), dtype=self.dtype, name="q")(nn.LayerNorm(dtype=self.dtype)(seeds))
        kv = nn.DenseGeneral((2, self.heads, d), dtype=self.dtype, name="kv")(src)
        k, v = kv[..., 0, :, :], kv[..., 1, :, :]

        s = jnp.einsum("lhd,bnhd->bhln", q, k, preferred_element_type=jnp.float32) * d ** -0.5
        live = jnp.arange(tokens.shape[1]) < lengths[:, None]
        s = jnp.where(live[:, None, None], s, jnp.finfo(jnp.float32).min)
        a = jax.nn.softmax(s).astype(self.dtype)
        a = nn.Dropout(self.rate)(a, deterministic=deterministic)
        y = jnp.einsum("bhln,bnhd->blhd", a, v)
        y = nn.DenseGeneral(self.width, axis=(-2, -1), dtype=self.dtype, name="o")(y)
        return seeds + y.astype(jnp.float32)
