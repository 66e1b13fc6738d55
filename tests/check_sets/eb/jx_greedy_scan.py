"""Greedy decoding of a one-layer toy LM in JAX with a preallocated cache and lax.scan.

gist: the whole generation loop is jitted, so shapes may not grow; the cache has
`maxlen` slots and slots that have not been written yet are masked out.

params: dict of arrays
    E  (V, D)     tied embedding
    P  (maxlen, D) learned positions
    q, k, v (D, H, d)     o (H, d, D)
"""
import jax
import jax.numpy as jnp
from jax import lax


def one_token(p, cache, tok, pos):
    """cache = (K, V), each (B, maxlen, H, d); tok (B,) int; pos scalar, slot that tok occupies.

    Returns (new cache, logits (B, V)) for the token after `tok`.
    """
    K, V = cache
    x = p["E"][tok] + p["P"][pos]
    q = jnp.einsum("bD,Dhd->bhd", x, p["q"])
    K = lax.dynamic_update_slice_in_dim(K, jnp.einsum("bD,Dhd->bhd", x, p["k"])[:, None], pos, axis=1)
    V = lax.dynamic_update_slice_in_dim(V, jnp.einsum("bD,Dhd->bhd", x, p["v"])[:, None], pos, axis=1)
    s = jnp.einsum("bhd,bthd->bht", q, K) * q.shape[-1] ** -0.5
    written = jnp.arange(K.shape[1]) <= pos
    s = jnp.where(written[None, None, :], s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    y = x + jnp.einsum("bht,bthd,hdD->bD", a, V, p["o"])
    return (K, V), y @ p["E"].T


def greedy(p, prompt, n_new):
    """prompt (B, T0) int without padding, T0 >= 1; T0 + n_new <= maxlen.

    Feeds the prompt token by token, then continues with the argmax.
    Returns (tokens (B, n_new), last-step logits of every fed position (T0 + n_new - 1, B, V)).
    """
    B, T0 = prompt.shape
    D, H, d = p["q"].shape
    maxlen = p["P"].shape[0]
    empty = jnp.zeros((B, maxlen, H, d), p["E"].dtype)

    def step(carry, t):
        cache, last = carry
        tok = jnp.where(t < T0, prompt[:, jnp.minimum(t, T0 - 1)], last)
        cache, logits = one_token(p, cache, tok, t)
        nxt = jnp.argmax(logits, -1)
        return (cache, nxt), (nxt, logits)

    _, (nxt, logits) = lax.scan(step, ((empty, empty), prompt[:, 0]), jnp.arange(T0 + n_new - 1))
    return nxt[T0 - 1:].T, logits
