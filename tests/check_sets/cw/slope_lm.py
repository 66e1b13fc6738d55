import jax
import jax.numpy as jnp


def slopes(n):
    assert n & (n - 1) == 0, "power of two heads"
    return 2.0 ** (-8.0 * jnp.arange(1, n + 1) / n)


def init(key, dim, heads):
    ks = jax.random.split(key, 4)
    hd = dim // heads
    p = {n: jax.random.normal(k, (dim, heads, hd)) * dim ** -0.5
         for n, k in zip(("q", "k", "v"), ks[:3])}
    p["o"] = jax.random.normal(ks[3], (heads, hd, dim)) * dim ** -0.5
    return p


def alibi_layer(params, x):
    """Causal self-attention without position embeddings, x [batch, len, dim].

    Instead each head penalises distance linearly: recent tokens are preferred, the more
    so the steeper the head's slope.
    """
    hd = params["q"].shape[-1]
    heads = params["q"].shape[1]
    n = x.shape[1]
    q = jnp.einsum("bnc,chd->bhnd", x, params["q"])
    k = jnp.einsum("bnc,chd->bhnd", x, params["k"])
    v = jnp.einsum("bnc,chd->bhnd", x, params["v"])
    logits = jnp.einsum("bhid,bhjd->bhij", q, k) / jnp.sqrt(hd)
    pos = jnp.arange(n)
    gap = pos[:, None] - pos[None, :]
    logits = logits + slopes(heads)[:, None, None] * gap
    logits = jnp.where(gap >= 0, logits, -jnp.inf)
    out = jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(logits, -1), v)
    return jnp.einsum("bhnd,hdc->bnc", out, params["o"])
