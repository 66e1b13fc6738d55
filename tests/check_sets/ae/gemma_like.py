from functools import partial

import jax
import jax.numpy as jnp

NEG = -2.3819763e38


def init(key, d_model, n_heads, d_head):
    ks = jax.random.split(key, 4)
    s = d_model ** -0.5
    return {
        "q": jax.random.normal(ks[0], (n_heads, d_model, d_head)) * s,
        "k": jax.random.normal(ks[1], (n_heads, d_model, d_head)) * s,
        "v": jax.random.normal(ks[2], (n_heads, d_model, d_head)) * s,
        "o": jax.random.normal(ks[3], (n_heads, d_head, d_model)) * (n_heads * d_head) ** -0.5,
    }


@partial(jax.jit, static_argnames="soft_cap")
def attend(params, x, segment_ids, soft_cap=5.0):
    """Causal attention over packed sequences.

    x: f32[T, D], segment_ids: i32[T]. Tokens see earlier tokens (and themselves) of their own
    segment only. Logits are soft capped to (-soft_cap, soft_cap).
    """
    q = jnp.einsum("td,ndh->tnh", x, params["q"])
    k = jnp.einsum("sd,ndh->snh", x, params["k"])
    v = jnp.einsum("sd,ndh->snh", x, params["v"])
    q = q * q.shape[-1] ** -0.5

    t = jnp.arange(x.shape[0])
    ok = (t[:, None] >= t[None, :]) & (segment_ids[:, None] == segment_ids[None, :])

    logits = jnp.einsum("tnh,snh->nts", q, k)
    logits = jnp.where(ok[None], logits, NEG)
    logits = jnp.tanh(logits / soft_cap) * soft_cap
    probs = jax.nn.softmax(logits, axis=-1)
    enc = jnp.einsum("nts,snh->tnh", probs, v)
    return jnp.einsum("tnh,nhd->td", enc, params["o"])
