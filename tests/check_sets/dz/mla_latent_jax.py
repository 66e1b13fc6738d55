"""Multi-head latent attention (DeepSeek-V2) in its "absorbed" decode form, JAX.

The cache holds, per token, one latent c (R,) and one rotary key kr (r,) shared by all heads.
Heads are never expanded: W_uk is folded into the query and W_uv is applied after the mixing.

    p     dict: "dkv" (D, R), "kr" (D, r), "q" (D, H, n), "qr" (D, H, r),
                "uk" (R, H, n), "uv" (R, H, n), "o" (H, n, D)
    x     (B, D)  the next token of every sequence
    cache (c (B, t, R), kr (B, t, r)) with t >= 0 earlier tokens
    ->    y (B, D), new cache with t + 1 tokens

Equivalent to: key_h = [uk_h c ; kr], query_h = [q_h x ; rope(qr_h x)], value_h = uv_h c,
scale 1/sqrt(n + r), all cached tokens and the new one visible.  The rope is of the
interleaved kind: (0,1), (2,3), ... are the pairs; the token's position is t.
"""
import jax
import jax.numpy as jnp


def rope_pairs(x, pos):
    r = x.shape[-1]
    th = pos * 10000.0 ** (-jnp.arange(0, r, 2) / r)
    even, odd = x[..., 0::2], x[..., 1::2]
    c, s = jnp.cos(th), jnp.sin(th)
    return jnp.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(x.shape)


def empty_cache(B, R, r):
    return jnp.zeros((B, 0, R)), jnp.zeros((B, 0, r))


def mla_step(p, x, cache):
    c, kr = cache
    t = c.shape[1]
    c = jnp.concatenate([c, (x @ p["dkv"])[:, None]], axis=1)
    kr = jnp.concatenate([kr, rope_pairs(x @ p["kr"], t)[:, None]], axis=1)

    q = jnp.einsum("bd,dhn->bhn", x, p["q"])
    qr = rope_pairs(jnp.einsum("bd,dhr->bhr", x, p["qr"]), t)
    q_lat = jnp.einsum("bhn,Rhn->bhR", q, p["uk"])
    z = jnp.einsum("bhR,btR->bht", q_lat, c) + jnp.einsum("bhr,btr->bht", qr, kr)
    w = jax.nn.softmax(z / jnp.sqrt(q.shape[-1] + qr.shape[-1]), axis=-1)
    lat = jnp.einsum("bht,btR->bhR", w, c)
    return jnp.einsum("bhR,Rhn,hnd->bd", lat, p["uv"], p["o"]), (c, kr)
