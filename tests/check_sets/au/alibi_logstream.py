"""Streaming model of server logs in JAX. ALiBi instead of positions, fixed-size key/value buffer."""
import math
from functools import partial

import jax
import jax.numpy as jnp


def slopes(n):
    """Slopes of the ALiBi paper, also for head counts that are no power of two."""
    def pow2(m):
        r = 2.0 ** (-8.0 / m)
        return [r ** (i + 1) for i in range(m)]
    lo = 2 ** int(math.floor(math.log2(n)))
    s = pow2(lo)
    if lo != n:
        s += pow2(2 * lo)[0::2][: n - lo]
    return jnp.array(s)


def init(key, vocab, d, heads, layers):
    def mat(k, a, b):
        return jax.random.normal(k, (a, b)) / math.sqrt(a)
    ks = iter(jax.random.split(key, 1 + 6 * layers))
    return {"emb": mat(next(ks), vocab, d),
            "layers": [{n: mat(next(ks), *sh) for n, sh in
                        (("q", (d, d)), ("k", (d, d)), ("v", (d, d)), ("o", (d, d)), ("up", (d, 4 * d)), ("down", (4 * d, d)))}
                       for _ in range(layers)]}


def empty_cache(batch, room, heads, d, layers):
    z = jnp.zeros((batch, room, heads, d // heads))
    return [(z, z) for _ in range(layers)]


def attend_chunk(p, x, cache, start, heads):
    """x [B, n, d] are positions start .. start+n-1; the cache has room for all of them.

    Position i sees positions j <= i, with slope * (j - i) added to the score.
    """
    B, n, d = x.shape
    dh = d // heads
    q = (x @ p["q"]).reshape(B, n, heads, dh)
    kc, vc = cache
    kc = jax.lax.dynamic_update_slice(kc, (x @ p["k"]).reshape(B, n, heads, dh), (0, start, 0, 0))
    vc = jax.lax.dynamic_update_slice(vc, (x @ p["v"]).reshape(B, n, heads, dh), (0, start, 0, 0))
    i = start + jnp.arange(n)[:, None]
    j = jnp.arange(kc.shape[1])[None, :]
    s = jnp.einsum("bihd,bjhd->bhij", q, kc) / math.sqrt(dh)
    s = s + slopes(heads)[:, None, None] * (j - i)
    s = jnp.where(j <= i, s, -jnp.inf)
    y = jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(s, -1), vc).reshape(B, n, d)
    return y @ p["o"], (kc, vc)


def rms(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


@partial(jax.jit, static_argnames="heads")
def step(params, tokens, cache, start, heads):
    x = params["emb"][tokens]
    new = []
    for p, c in zip(params["layers"], cache):
        y, c = attend_chunk(p, rms(x), c, start, heads)
        x = x + y
        x = x + jax.nn.silu(rms(x) @ p["up"]) @ p["down"]
        new.append(c)
    return rms(x) @ params["emb"].T, new


def surprise(params, tokens, heads, layers, chunk=16):
    """Bits per log token; high values are anomalies."""
    B, L = tokens.shape
    d = params["emb"].shape[1]
    cache = empty_cache(B, L, heads, d, layers)
    out = []
    for a in range(0, L, chunk):
        lg, cache = step(params, tokens[:, a:a + chunk], cache, a, heads)
        out.append(lg)
    lp = jax.nn.log_softmax(jnp.concatenate(out, 1)[:, :-1])
    return -jnp.take_along_axis(lp, tokens[:, 1:, None], -1)[..., 0] / math.log(2)
