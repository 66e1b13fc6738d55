"""Chat backend, JAX port of the decode step with a cache of fixed size.

decode_step(params, cache, x, pos) -> (y, cache)
    x      (B, D)        the new token's hidden state
    pos    scalar int    its position, 0-based; slots 0 .. pos-1 are already filled
    cache  {"k": (B, S, G, d), "v": (B, S, G, d)}   S slots, G key/value heads
    params {"wq": (D, H, d), "wk": (D, G, d), "wv": (D, G, d), "wo": (H, d, D)}
H is a multiple of G; query heads g*H/G .. (g+1)*H/G - 1 read key/value head g.
The token is written to slot pos and attends to slots 0 .. pos; scale 1/sqrt(d).
"""
import jax
import jax.numpy as jnp
from jax import lax


def init_cache(batch, slots, groups, d, dtype=jnp.float32):
    z = jnp.zeros((batch, slots, groups, d), dtype)
    return {"k": z, "v": z}


@jax.jit
def decode_step(params, cache, x, pos):
    q = jnp.einsum("bD,Dhd->bhd", x, params["wq"])
    k_new = jnp.einsum("bD,Dgd->bgd", x, params["wk"])[:, None]
    v_new = jnp.einsum("bD,Dgd->bgd", x, params["wv"])[:, None]
    zero = jnp.zeros((), jnp.int32)
    at = (zero, jnp.asarray(pos, jnp.int32), zero, zero)
    ks = lax.dynamic_update_slice(cache["k"], k_new, at)
    vs = lax.dynamic_update_slice(cache["v"], v_new, at)

    B, H, d = q.shape
    G = ks.shape[2]
    qg = q.reshape(B, G, H // G, d)
    s = jnp.einsum("bgrd,bsgd->bgrs", qg, ks) * lax.rsqrt(jnp.float32(d))
    seen = lax.iota(jnp.int32, ks.shape[1]) <= pos
    s = jnp.where(seen, s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bgrs,bsgd->bgrd", p, vs).reshape(B, H, d)
    return jnp.einsum("bhd,hdD->bD", y, params["wo"]), {"k": ks, "v": vs}
