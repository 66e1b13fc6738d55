"""Multi-query attention with ALiBi, plain JAX (params are a dict)."""
import math

import jax
import jax.numpy as jnp


def init_params(rng, width=32, n_head=4):
    hs = width // n_head
    ks = jax.random.split(rng, 4)
    s = width ** -0.5
    return {
        "wq": s * jax.random.normal(ks[0], (width, n_head, hs)),
        "wk": s * jax.random.normal(ks[1], (width, hs)),
        "wv": s * jax.random.normal(ks[2], (width, hs)),
        "wo": s * jax.random.normal(ks[3], (n_head, hs, width)),
    }


def alibi_slopes(n):
    """geometric slopes of Press et al., with their rule for n that is no power of two"""
    def pow2(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]
    if math.log2(n).is_integer():
        return jnp.array(pow2(n))
    m = 2 ** math.floor(math.log2(n))
    return jnp.array(pow2(m) + pow2(2 * m)[0::2][: n - m])


def mqa(params, stream, reach=None):
    """Causal attention; n_head query heads share a single key/value head.

    stream: (B, T, width)
    reach: if given, a position sees only itself and the `reach - 1` positions before it
    """
    T = stream.shape[1]
    asks = jnp.einsum("btw,whs->bhts", stream, params["wq"])
    tags = jnp.einsum("btw,ws->bts", stream, params["wk"])
    load = jnp.einsum("btw,ws->bts", stream, params["wv"])

    affinity = jnp.einsum("bhts,bus->bhtu", asks, tags) * asks.shape[-1] ** -0.5
    t = jnp.arange(T)
    back = t[:, None] - t[None, :]
    affinity = affinity - alibi_slopes(asks.shape[1])[None, :, None, None] * back
    ok = back >= 0
    if reach is not None:
        ok &= back < reach
    affinity = jnp.where(ok, affinity, -jnp.inf)
    share = jax.nn.softmax(affinity, axis=-1)
    mixed = jnp.einsum("bhtu,bus->bths", share, load)
    return jnp.einsum("bths,hsw->btw", mixed, params["wo"])


if __name__ == "__main__":
    p = init_params(jax.random.PRNGKey(0))
    y = mqa(p, jax.random.normal(jax.random.PRNGKey(1), (2, 7, 32)), reach=3)
    print(y.shape)
