"""ALiBi attention for long DNA reads (functional JAX, parameters in a plain dict)."""
import jax
import jax.numpy as jnp


def init_params(key, dim=32, heads=4):
    # heads has to be a power of two
    ks = jax.random.split(key, 4)
    s = dim**-0.5
    return {n: jax.random.normal(k, (dim, dim)) * s for n, k in zip(("q", "k", "v", "o"), ks)}


def alibi_bias(length, heads):
    """Linear penalty on the distance, slopes 2^(-8/n), 2^(-16/n), ... for n heads."""
    slopes = 2.0 ** (-8.0 * jnp.arange(1, heads + 1) / heads)
    i = jnp.arange(length)
    distance = jnp.abs(i[:, None] - i[None, :])
    return slopes[:, None, None] * distance[None]


def dna_attention(params, x, pad, heads=4):
    """Bidirectional self-attention over nucleotides.

    x   (batch, length, dim)
    pad (batch, length) bool, True = N or padding, never attended to
        (each read has at least one called base)

    The farther a nucleotide is away, the less it counts.
    """
    b, n, dim = x.shape
    d = dim // heads
    q, k, v = (
        (x @ params[name]).reshape(b, n, heads, d).transpose(0, 2, 1, 3) for name in ("q", "k", "v")
    )
    logits = jnp.einsum("bhid,bhjd->bhij", q, k) / jnp.sqrt(d)
    logits = logits + alibi_bias(n, heads)
    logits = jnp.where(pad[:, None, None, :], -jnp.inf, logits)
    w = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhij,bhjd->bhid", w, v)
    return y.transpose(0, 2, 1, 3).reshape(b, n, dim) @ params["o"]
