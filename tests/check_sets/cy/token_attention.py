import jax.numpy as jnp
import flax.linen as nn


class TokenAttention(nn.Module):
    """Mixes tokens with an MLP across the sequence, then channels with another.

    x (B, L, dim), L fixed at init time.
    """
    dim: int
    hidden_tokens: int = 16
    hidden_channels: int = 32

    @nn.compact
    def __call__(self, x):
        L = x.shape[1]
        y = nn.LayerNorm()(x)
        y = jnp.swapaxes(y, 1, 2)
        y = nn.Dense(self.hidden_tokens)(y)
        y = nn.gelu(y)
        y = nn.Dense(L)(y)
        x = x + jnp.swapaxes(y, 1, 2)
        y = nn.LayerNorm()(x)
        y = nn.Dense(self.hidden_channels)(y)
        y = nn.gelu(y)
        return x + nn.Dense(self.dim)(y)
