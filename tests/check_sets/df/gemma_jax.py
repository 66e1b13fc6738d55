import jax
import jax.numpy as jnp


def init_params(key, d_model=24, heads=3, d_head=8):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    n = jax.random.normal
    return dict(wq=n(k1, (d_model, heads, d_head)) * 0.3, wk=n(k2, (d_model, heads, d_head)) * 0.3,
                wv=n(k3, (d_model, heads, d_head)) * 0.3, wo=n(k4, (heads, d_head, d_model)) * 0.3)


def gemma_attention(params, x, pad, cap=4.0):
    """Causal self-attention of one Gemma-2 style layer with capped logits.

    x: (B, T, D); pad: (B, T) bool, True at padding (right side). A query sees itself and
    earlier, unpadded tokens only. Returns (B, T, D).
    """
    q = jnp.einsum("btd,dhk->bhtk", x, params["wq"])
    k = jnp.einsum("btd,dhk->bhtk", x, params["wk"])
    v = jnp.einsum("btd,dhk->bhtk", x, params["wv"])
    T = x.shape[1]
    visible = jnp.tril(jnp.ones((T, T), dtype=bool)) & ~pad[:, None, None, :]
    logits = jnp.einsum("bhik,bhjk->bhij", q, k) / jnp.sqrt(q.shape[-1])
    logits = jnp.where(visible, logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(cap * jnp.tanh(logits / cap), axis=-1)
    return jnp.einsum("bhij,bhjk,hkd->bid", probs, v, params["wo"])
