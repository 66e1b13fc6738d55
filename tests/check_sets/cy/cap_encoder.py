from functools import partial
import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames=("heads", "cap"))
def cap_encoder(p, x, valid, heads=4, cap=5.0):
    """Self-attention sublayer with logits held inside (-cap, cap).

    p: dict with 'qkv' (dim, 3*dim), 'out' (dim, dim), 'g' (dim,)
    x: (B, L, dim); valid: (B, L) bool, False marks padding that no token
    may read. Returns x plus the attention output.
    """
    B, L, dim = x.shape
    d = dim // heads
    n = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["g"]
    qkv = (n @ p["qkv"]).reshape(B, L, 3, heads, d)
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    logits = jnp.einsum("bihd,bjhd->bhij", q, k) * d ** -0.5
    logits = jnp.where(valid[:, None, None, :], logits, -1e30)
    logits = cap * jnp.tanh(logits / cap)
    w = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhij,bjhd->bihd", w, v).reshape(B, L, dim)
    return x + y @ p["out"]
