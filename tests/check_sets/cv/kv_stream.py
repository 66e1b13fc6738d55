"""Streaming decoder attention in JAX with a fixed-size cache (for the phone demo)."""
import jax
import jax.numpy as jnp


def make_params(key, D=16, H=2):
    ks = jax.random.split(key, 4)
    return {n: jax.random.normal(k, (D, D)) * D ** -0.5 for n, k in zip(("q", "k", "v", "o"), ks)}


def empty_cache(H=2, size=16, d=8):
    return {"k": jnp.zeros((H, size, d)), "v": jnp.zeros((H, size, d)), "n": jnp.array(0)}


def rope(x, pos):
    """x [H, T, d], pos [T]; pairs are (i, i + d/2)."""
    m = x.shape[-1] // 2
    th = pos[:, None] * 10000.0 ** (-jnp.arange(m) / m)
    a, b = x[..., :m], x[..., m:]
    return jnp.concatenate([a * jnp.cos(th) - b * jnp.sin(th), a * jnp.sin(th) + b * jnp.cos(th)], -1)


def decode(params, x, cache, H=2):
    """x [T, D], the next T tokens after the cache["n"] tokens seen so far.

    Rotary positions go on from the cache, so feeding a text in pieces gives the same as all at once.
    Causal. Returns y [T, D] and the new cache.
    """
    T, D = x.shape
    heads = lambda w: (x @ w).reshape(T, H, D // H).swapaxes(0, 1)
    n = cache["n"]
    step = jnp.arange(T)
    q = rope(heads(params["q"]), step)
    k = rope(heads(params["k"]), n + step)
    K = jax.lax.dynamic_update_slice(cache["k"], k, (0, n, 0))
    V = jax.lax.dynamic_update_slice(cache["v"], heads(params["v"]), (0, n, 0))

    # unwritten places of the cache lie after the last token, so the causal rule hides them too
    ok = jnp.arange(K.shape[1])[None] <= (n + step)[:, None]
    s = jnp.where(ok, q @ K.mT / jnp.sqrt(D // H), -jnp.inf)
    y = jax.nn.softmax(s, -1) @ V
    return y.swapaxes(0, 1).reshape(T, D) @ params["o"], {"k": K, "v": V, "n": n + T}
