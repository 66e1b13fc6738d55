"""Decode step of multi-head latent attention (DeepSeek-V2), absorbed form, in JAX.

The cache holds per token one compressed vector c [r] and one rotated key part
[dr] that all heads share.  Keys W_uk c and values W_uv c are never formed: W_uk
is moved to the query and W_uv to the output.

    score = (q_nope . W_uk c_s + q_rope . k_rope_s) / sqrt(dn + dr)

Sequences of the batch have different lengths; slots past the length of a row
hold garbage and are not seen.  Rotary embedding: half-split, absolute position.
"""
import jax
import jax.numpy as jnp

H, DN, DR, DV, RANK, DIM = 4, 8, 4, 6, 10, 32


def init(key, scale=0.2):
    shapes = dict(
        w_q=(DIM, H, DN + DR),
        w_dkv=(DIM, RANK),
        w_kr=(DIM, DR),
        w_uk=(RANK, H, DN),
        w_uv=(RANK, H, DV),
        w_o=(H, DV, DIM),
    )
    keys = jax.random.split(key, len(shapes))
    return {n: scale * jax.random.normal(k, s) for k, (n, s) in zip(keys, shapes.items())}


def rope(x, pos):
    """x [..., DR]; pos broadcasts against x[..., 0]"""
    inv = 10000.0 ** (-jnp.arange(DR // 2) / (DR // 2))
    ang = pos[..., None] * inv
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


def empty_cache(batch, capacity):
    return dict(
        c=jnp.zeros((batch, capacity, RANK)),
        kr=jnp.zeros((batch, capacity, DR)),
        length=jnp.zeros((batch,), jnp.int32),
    )


@jax.jit
def decode_step(params, x, cache):
    """x [B, DIM], one new token per row -> y [B, DIM], cache"""
    pos = cache["length"]
    rows = jnp.arange(x.shape[0])
    c = cache["c"].at[rows, pos].set(x @ params["w_dkv"])
    kr = cache["kr"].at[rows, pos].set(rope(x @ params["w_kr"], pos))

    q = jnp.einsum("bi,ihd->bhd", x, params["w_q"])
    q_nope, q_rope = q[..., :DN], rope(q[..., DN:], pos[:, None])
    q_latent = jnp.einsum("bhd,rhd->bhr", q_nope, params["w_uk"])

    score = jnp.einsum("bhr,bsr->bhs", q_latent, c) + jnp.einsum("bhd,bsd->bhs", q_rope, kr)
    score = score * (DN + DR) ** -0.5
    seen = jnp.arange(c.shape[1])[None] <= pos[:, None]
    prob = jax.nn.softmax(jnp.where(seen[:, None], score, -jnp.inf), axis=-1)

    mixed = jnp.einsum("bhs,bsr->bhr", prob, c)
    y = jnp.einsum("bhr,rhv,hvo->bo", mixed, params["w_uv"], params["w_o"])
    return y, dict(c=c, kr=kr, length=pos + 1)


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    kv = empty_cache(2, 16)
    for t in range(5):
        y, kv = decode_step(p, jax.random.normal(jax.random.PRNGKey(t), (2, DIM)), kv)
    print(y.shape, kv["length"])
