"""FAVOR+ (Performer) in JAX: softmax attention approximated with positive random features.

phi(x) = exp(w.x' - |x'|^2 / 2 - c) / sqrt(m),  x' = x / d^(1/4), w orthogonal gaussian rows.
c is there for the numerics only, it cancels between numerator and denominator; with more
features the result tends to softmax(q k^T / sqrt(d)) v.
"""
import jax
import jax.numpy as jnp


def orthogonal_features(key, m, d):
    blocks = []
    for _ in range(-(-m // d)):
        key, sub = jax.random.split(key)
        qmat, rmat = jnp.linalg.qr(jax.random.normal(sub, (d, d)))
        blocks.append((qmat * jnp.sign(jnp.diagonal(rmat))).T)       # signs: uniform rotation
    w = jnp.concatenate(blocks)[:m]
    length = jnp.linalg.norm(jax.random.normal(key, (m, d)), axis=1)
    return w * length[:, None]


def softmax_kernel(x, w, eps=1e-6):
    """x [..., L, d] -> [..., L, m]"""
    d, m = x.shape[-1], w.shape[0]
    x = x * d ** -0.25
    u = jnp.einsum("...ld,md->...lm", x, w)
    half = 0.5 * jnp.sum(x * x, axis=-1, keepdims=True)
    c = jnp.max(u - half, axis=-1, keepdims=True)
    return (jnp.exp(u - half - jax.lax.stop_gradient(c)) + eps) / jnp.sqrt(m)


def favor_attention(q, k, v, w, key_mask=None):
    """q [B,H,L,d], k [B,H,S,d], v [B,H,S,e]; key_mask [B,S] True = real"""
    fq, fk = softmax_kernel(q, w), softmax_kernel(k, w)
    if key_mask is not None:
        fk = jnp.where(key_mask[:, None, :, None], fk, 0.0)
    kv = jnp.einsum("bhsm,bhse->bhme", fk, v)
    z = jnp.einsum("bhlm,bhm->bhl", fq, fk.sum(axis=2))
    return jnp.einsum("bhlm,bhme->bhle", fq, kv) / z[..., None]


def performer_layer(params, x, w, heads, key_mask=None):
    b, l, c = x.shape
    q, k, v = (jnp.moveaxis((x @ params[n]).reshape(b, l, heads, c // heads), 2, 1) for n in ("wq", "wk", "wv"))
    y = jnp.moveaxis(favor_attention(q, k, v, w, key_mask), 1, 2).reshape(b, l, c)
    x = x + y @ params["wo"]
    return x + jax.nn.gelu(x @ params["w1"]) @ params["w2"]


def init(key, c):
    ks = jax.random.split(key, 6)
    shapes = {"wq": (c, c), "wk": (c, c), "wv": (c, c), "wo": (c, c), "w1": (c, 4 * c), "w2": (4 * c, c)}
    return {n: jax.random.normal(kk, s) / jnp.sqrt(s[0]) for kk, (n, s) in zip(ks, shapes.items())}


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    w = orthogonal_features(key, 64, 8)
    x = jax.random.normal(key, (2, 11, 32))
    print(performer_layer(init(key, 32), x, w, heads=4).shape)
