import jax
import jax.numpy as jnp


def init_cache(batch, size, n_kv, d):
    return {"k": jnp.zeros((batch, size, n_kv, d)), "v": jnp.zeros((batch, size, n_kv, d)), "pos": jnp.int32(0)}


def step(cache, q, k, v):
    """One token.  q [B, H, d]; k, v [B, Hkv, d].  Head h reads kv head h // (H / Hkv).

    The cache is a ring: the slot is pos % size, so slots are in no order once it has gone round.  Attention does not
    mind: only slots never written are hidden.
    """
    size, n_kv = cache["k"].shape[1:3]
    slot = cache["pos"] % size
    ks = jax.lax.dynamic_update_slice_in_dim(cache["k"], k[:, None], slot, axis=1)
    vs = jax.lax.dynamic_update_slice_in_dim(cache["v"], v[:, None], slot, axis=1)
    B, H, d = q.shape
    s = jnp.einsum("bkgd,bskd->bkgs", q.reshape(B, n_kv, H // n_kv, d), ks) / jnp.sqrt(d)
    s = jnp.where(jnp.arange(size) <= cache["pos"], s, -jnp.inf)
    o = jnp.einsum("bkgs,bskd->bkgd", jax.nn.softmax(s, axis=-1), vs)
    return {"k": ks, "v": vs, "pos": cache["pos"] + 1}, o.reshape(B, H, d)


def decode(q, k, v, window=4):
    """All tokens through ``step``: q [B, T, H, d], k and v [B, T, Hkv, d] -> [B, T, H, d].

    A token sees the last ``window`` tokens, itself included.
    """
    cache = init_cache(k.shape[0], window, *k.shape[2:])
    _, out = jax.lax.scan(lambda c, t: step(c, *t), cache, tuple(jnp.swapaxes(x, 0, 1) for x in (q, k, v)))
    return jnp.swapaxes(out, 0, 1)
