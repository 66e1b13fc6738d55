import jax
import jax.numpy as jnp


def init(key, D=32, N=4, H=8):
    a, b, c = jax.random.split(key, 3)
    return dict(
        q=jax.random.normal(a, (D, N, H)) / D ** 0.5,
        kv=jax.random.normal(b, (2, D, H)) / D ** 0.5,        # one key/value head for all (MQA)
        o=jax.random.normal(c, (N, H, D)) / (N * H) ** 0.5,
    )


def attention(p, x, pad=None, cap=5.0):
    """Multi-query causal self-attention with soft-capped logits, cap * tanh(logits / cap).

    x [B, T, D]; pad [B, T] bool, True = padding token (never at position 0), its key is hidden.
    Hidden keys get weight zero. Returns [B, T, D].
    """
    B, T, D = x.shape
    q = jnp.einsum("btd,dnh->btnh", x, p["q"])
    k, v = jnp.einsum("btd,cdh->cbth", x, p["kv"])
    logits = jnp.einsum("btnh,bsh->bnts", q, k) * q.shape[-1] ** -0.5

    visible = jnp.tril(jnp.ones((T, T), bool))[None, None]
    if pad is not None:
        visible = visible & ~pad[:, None, None, :]
    logits = jnp.where(visible, logits, jnp.finfo(logits.dtype).min)
    logits = cap * jnp.tanh(logits / cap)

    w = jax.nn.softmax(logits, -1)
    return jnp.einsum("bnts,bsh,nhd->btd", w, v, p["o"])
