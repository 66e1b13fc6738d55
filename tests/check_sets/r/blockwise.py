import jax
import jax.numpy as jnp


def blockwise_attention(query, key, value, kv_mask=None, *, chunk=4):
    """Memory-efficient attention (Rabe and Staats 2021) as a scan over chunks of keys.

    query [batch, q_len, heads, d], key and value [batch, kv_len, heads, d], kv_mask [batch, kv_len] True = attend.
    kv_len is padded up to a multiple of the chunk; the padding is masked.  A row without any key gives 0.
    """
    b, q_len, h, d = query.shape
    kv_len = key.shape[1]
    if kv_mask is None:
        kv_mask = jnp.ones((b, kv_len), bool)
    pad = -kv_len % chunk
    key, value = (jnp.pad(x, ((0, 0), (0, pad), (0, 0), (0, 0))) for x in (key, value))
    kv_mask = jnp.pad(kv_mask, ((0, 0), (0, pad)))
    query = query * d**-0.5

    def chunks(x):
        return jnp.moveaxis(x.reshape(b, -1, chunk, *x.shape[2:]), 1, 0)

    def body(carry, xs):
        num, den, top = carry
        k, v, ok = xs
        s = jnp.einsum("bqhd,bkhd->bhqk", query, k)
        s = jnp.where(ok[:, None, None, :], s, -jnp.inf)
        new = jnp.maximum(top, s.max(-1))
        safe = jnp.where(jnp.isfinite(new), new, 0.0)
        p, fix = jnp.exp(s - safe[..., None]), jnp.exp(top - safe)
        num = num * fix[..., None] + jnp.einsum("bhqk,bkhd->bhqd", p, v)
        return (num, den * fix + p.sum(-1), new), None

    start = (jnp.zeros((b, h, q_len, d)), jnp.zeros((b, h, q_len)), jnp.full((b, h, q_len), -jnp.inf))
    (num, den, _), _ = jax.lax.scan(body, start, (chunks(key), chunks(value), chunks(kv_mask)))
    return jnp.swapaxes(num / jnp.where(den == 0, 1.0, den)[..., None], 1, 2)
