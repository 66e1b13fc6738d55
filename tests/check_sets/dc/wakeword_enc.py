import jax
import jax.numpy as jnp


def slopes(n):
    """n is a power of two: 2^(-8/n), 2^(-16/n), ..., 2^-8"""
    return 2.0 ** (-8.0 * jnp.arange(1, n + 1) / n)


def wakeword_layer(params, x, lengths, heads=4):
    """Encoder layer of the wake-word model (looks both ways), distance penalty instead of positions.

    x (B, T, D); lengths (B,) at least 1. Frames past the length come back as zeros.
    """
    B, T, D = x.shape
    d = D // heads
    mu = x.mean(-1, keepdims=True)
    z = (x - mu) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def heads_of(w):
        return (z @ w).reshape(B, T, heads, d).swapaxes(1, 2)

    q, k, v = heads_of(params["q"]), heads_of(params["k"]), heads_of(params["v"])
    t = jnp.arange(T)
    penalty = slopes(heads)[:, None, None] * jnp.abs(t[:, None] - t[None, :])
    s = q @ k.swapaxes(-1, -2) / jnp.sqrt(d) - penalty
    live = t[None, :] < lengths[:, None]
    s = jnp.where(live[:, None, None, :], s, -jnp.inf)
    y = jax.nn.softmax(s, axis=-1) @ v
    y = x + y.swapaxes(1, 2).reshape(B, T, D) @ params["o"]
    return y * live[..., None]
