import jax
import jax.numpy as jnp
from jax import random


def init_layer(key, d, h):
    k = random.split(key, 6)
    s = d ** -0.5
    return {"wq": random.normal(k[0], (d, d)) * s, "wk": random.normal(k[1], (d, d)) * s,
            "wv": random.normal(k[2], (d, d)) * s, "wo": random.normal(k[3], (d, d)) * s,
            "w1": random.normal(k[4], (d, 4 * d)) * s, "w2": random.normal(k[5], (4 * d, d)) * s / 2}


def init_model(key, vocab=50, d=32, h=4, n=2, ctx=32):
    k = random.split(key, n + 2)
    return {"tok": random.normal(k[0], (vocab, d)) * 0.1,
            "pos": random.normal(k[1], (ctx, d)) * 0.1,
            "layers": [init_layer(kk, d, h) for kk in k[2:]]}


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)


def causal_attention(p, x, n_head=4):
    """Masked self-attention of a character-level language model, x: (B, T, D)."""
    B, T, D = x.shape
    q = (x @ p["wq"]).reshape(B, T, n_head, D // n_head).transpose(0, 2, 1, 3)
    k = (x @ p["wk"]).reshape(B, T, n_head, D // n_head).transpose(0, 2, 1, 3)
    v = (x @ p["wv"]).reshape(B, T, n_head, D // n_head).transpose(0, 2, 1, 3)
    att = jnp.einsum("bhtd,bhsd->bhts", q, k) / jnp.sqrt(D // n_head)
    mask = jnp.tril(jnp.ones((T, T), dtype=bool), k=1)
    att = jnp.where(mask, att, -1e10)
    att = jax.nn.softmax(att, axis=-1)
    y = jnp.einsum("bhts,bhsd->bhtd", att, v)
    return y.transpose(0, 2, 1, 3).reshape(B, T, D) @ p["wo"]


@jax.jit
def model(params, idx):
    x = params["tok"][idx] + params["pos"][: idx.shape[1]]
    for p in params["layers"]:
        x = x + causal_attention(p, norm(x))
        x = x + jax.nn.gelu(norm(x) @ p["w1"]) @ p["w2"]
    return norm(x) @ params["tok"].T


def loss(params, idx):
    lp = jax.nn.log_softmax(model(params, idx[:, :-1]))
    return -jnp.take_along_axis(lp, idx[:, 1:, None], -1).mean()
