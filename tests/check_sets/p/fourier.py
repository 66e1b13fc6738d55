import jax.numpy as jnp


def spectral_mixing(x, w1, w2):
    """FNet: x (B, T, D) is mixed by a Fourier transform along time and features; then a feed-forward layer, w1 (D, F), w2 (F, D)."""
    y = x + jnp.fft.fft2(x, axes=(-2, -1)).real
    return y + jnp.maximum(y @ w1, 0) @ w2
