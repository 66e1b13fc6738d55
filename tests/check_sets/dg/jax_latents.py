import jax
import jax.numpy as jnp


def init(key, d_lat=32, d_tok=20, heads=4):
    ks = jax.random.split(key, 4)
    g = lambda k, a, b: jax.random.normal(k, (a, b)) / a ** 0.5
    return {
        "wq": g(ks[0], d_lat, d_lat),
        "wk": g(ks[1], d_tok, d_lat),
        "wv": g(ks[2], d_tok, d_lat),
        "wo": g(ks[3], d_lat, d_lat),
    }


def layernorm(x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + eps)


def read_into_latents(params, lat, tok, valid, heads=4):
    """Perceiver-style read.

    lat (B, N, d_lat), tok (B, L, d_tok), valid (B, L) bool -> (B, N, d_lat)
    """
    B, N, D = lat.shape
    d = D // heads
    t = layernorm(tok)
    q = (layernorm(lat) @ params["wq"]).reshape(B, N, heads, d)
    k = (t @ params["wk"]).reshape(B, -1, heads, d)
    v = (t @ params["wv"]).reshape(B, -1, heads, d)
    logits = jnp.einsum("bnhd,blhd->bhnl", q, k) / jnp.sqrt(d)
    logits = jnp.where(valid[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
    a = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhnl,blhd->bnhd", a, v).reshape(B, N, D)
    return lat + y @ params["wo"]
