"""LLaMA-2 attention in pure jax.numpy, reads Meta's consolidated.*.pth converted to .npz.

  wq [D, Hq*Dh]   wk, wv [D, Hkv*Dh]   wo [Hq*Dh, D]

Meta layout: rotary pairs are (0,1), (2,3), ...  With grouped-query attention the Hq / Hkv
consecutive query heads of a group share one key/value head, as in the checkpoint.
`start` is the position of x[0]; cache holds the earlier keys/values or is None.
"""
from functools import partial

import jax
import jax.numpy as jnp


def rotary(x, start, theta=10000.0):
    # x: [T, H, Dh]
    T, _, dh = x.shape
    inv = theta ** (-jnp.arange(0, dh, 2) / dh)
    ang = (start + jnp.arange(T))[:, None] * inv
    c, s = jnp.cos(ang)[:, None, :], jnp.sin(ang)[:, None, :]
    even, odd = x[..., 0::2], x[..., 1::2]
    y = jnp.stack([even * c - odd * s, even * s + odd * c], axis=-1)
    return y.reshape(x.shape)


def expand_kv(x, n_rep):
    """[S, Hkv, Dh] -> [S, Hkv * n_rep, Dh]"""
    if n_rep == 1:
        return x
    return jnp.tile(x, (1, n_rep, 1))


def attention(params, x, n_heads, n_kv_heads, cache=None, start=0):
    """x [T, D] -> ([T, D], new cache)"""
    T = x.shape[0]
    q = rotary((x @ params["wq"]).reshape(T, n_heads, -1), start)
    k = rotary((x @ params["wk"]).reshape(T, n_kv_heads, -1), start)
    v = (x @ params["wv"]).reshape(T, n_kv_heads, -1)
    if cache is not None:
        k = jnp.concatenate([cache[0], k], axis=0)
        v = jnp.concatenate([cache[1], v], axis=0)
    S = k.shape[0]

    keys = expand_kv(k, n_heads // n_kv_heads)
    values = expand_kv(v, n_heads // n_kv_heads)
    logits = jnp.einsum("thd,shd->hts", q, keys) / jnp.sqrt(q.shape[-1])
    visible = jnp.arange(S)[None, :] <= jnp.arange(T)[:, None] + (S - T)
    logits = jnp.where(visible, logits, -jnp.inf)
    probs = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("hts,shd->thd", probs, values).reshape(T, -1)
    return y @ params["wo"], (k, v)


@partial(jax.jit, static_argnums=(2, 3))
def prefill(params, x, n_heads, n_kv_heads):
    return attention(params, x, n_heads, n_kv_heads)


def init(key, dim, n_heads, n_kv_heads):
    ks = jax.random.split(key, 4)
    dh = dim // n_heads
    w = lambda k, o: jax.random.normal(k, (dim, o)) * dim ** -0.5
    return {"wq": w(ks[0], dim), "wk": w(ks[1], n_kv_heads * dh),
            "wv": w(ks[2], n_kv_heads * dh), "wo": w(ks[3], dim)}


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0), 32, 4, 2)
    x = jax.random.normal(jax.random.PRNGKey(1), (6, 32))
    full, _ = prefill(p, x, 4, 2)
    _, c = prefill(p, x[:5], 4, 2)
    last, _ = attention(p, x[5:], 4, 2, cache=c, start=5)
    print(jnp.abs(full[5:] - last).max())
