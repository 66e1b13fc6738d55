import jax
import jax.numpy as jnp


def init_params(key, dim, num_heads):
    head_dim = dim // num_heads
    kq, kk, kv, ko = jax.random.split(key, 4)
    s = dim ** -0.5
    return {
        "wq": jax.random.normal(kq, (dim, num_heads, head_dim)) * s,
        "wk": jax.random.normal(kk, (dim, head_dim)) * s,
        "wv": jax.random.normal(kv, (dim, head_dim)) * s,
        "wo": jax.random.normal(ko, (num_heads, head_dim, dim)) * s,
    }


def rotary(x, positions, base=10000.0):
    """Rotates the pairs (x0, x1), (x2, x3), ... of the last axis; GPT-J layout.

    x: [..., seq, head_dim], positions: [seq]
    """
    half = x.shape[-1] // 2
    freqs = base ** (-jnp.arange(half) / half)
    theta = positions[:, None] * freqs[None, :]
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    even, odd = x[..., 0::2], x[..., 1::2]
    rot = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return rot.reshape(x.shape)


def multi_query_attention(x, wq, wk, wv, wo):
    """Causal multi-query attention: many query heads, a single key/value head.

    x: [batch, seq, dim]; wq: [dim, heads, head_dim]; wk, wv: [dim, head_dim];
    wo: [heads, head_dim, dim]. Returns [batch, seq, dim].
    """
    seq = x.shape[1]
    pos = jnp.arange(seq)
    q = rotary(jnp.einsum("btd,dhk->bhtk", x, wq), pos)
    k = rotary(x @ wk, pos)
    v = x @ wv

    logits = jnp.einsum("bhtk,bsk->bhts", q, k) / jnp.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones((seq, seq), dtype=bool))
    logits = jnp.where(causal, logits, -jnp.inf)
    probs = jax.nn.softmax(logits, axis=-1)
    ctx = jnp.einsum("bhts,bsk->bhtk", probs, v)
    return jnp.einsum("bhtk,hkd->btd", ctx, wo)


if __name__ == "__main__":
    p = init_params(jax.random.PRNGKey(1), 32, 4)
    x = jax.random.normal(jax.random.PRNGKey(2), (2, 6, 32))
    print(multi_query_attention(x, **p).shape)
