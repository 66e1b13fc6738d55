import jax
import jax.numpy as jnp
import flax.linen as nn


class LeafFocus(nn.Module):
    """Channel gate for plant disease photos, [B, H, W, C].

    A 3x3 convolution, then every channel is weighted by a sigmoid of the globally pooled
    features (squeeze and excite), plus a residual.
    """
    features: int
    squeeze: int = 4

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(self.features, (3, 3), padding="SAME")(x)
        y = jax.nn.silu(y)
        pooled = jnp.mean(y, axis=(1, 2))
        g = nn.Dense(self.features // self.squeeze)(pooled)
        g = nn.Dense(self.features)(jax.nn.relu(g))
        y = y * jax.nn.sigmoid(g)[:, None, None, :]
        if x.shape[-1] != self.features:
            x = nn.Dense(self.features, use_bias=False)(x)
        return x + y
