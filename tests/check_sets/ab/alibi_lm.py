# ALiBi language model, plain jax (no flax). Params live in nested dicts.
import jax
import jax.numpy as jnp
from jax import random


def alibi_slopes(n_heads):
    """geometric sequence of Press et al., for 8 heads: 1/2, 1/4, ..., 1/256"""
    return jnp.array([2.0 ** (-8.0 * h / n_heads) for h in range(n_heads)])


def alibi_bias(n_heads, length):
    """the further away a key, the bigger its penalty. [heads, length, length]"""
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    return alibi_slopes(n_heads)[:, None, None] * (i - j)


def init_attn(key, d, n_heads):
    ks = random.split(key, 4)
    hd = d // n_heads
    return {
        "q": random.normal(ks[0], (d, n_heads, hd)) / jnp.sqrt(d),
        "k": random.normal(ks[1], (d, n_heads, hd)) / jnp.sqrt(d),
        "v": random.normal(ks[2], (d, n_heads, hd)) / jnp.sqrt(d),
        "o": random.normal(ks[3], (n_heads, hd, d)) / jnp.sqrt(d),
    }


def alibi_attention(p, x):
    """x: [batch, length, d] -> same, causal"""
    length = x.shape[1]
    q = jnp.einsum("bld,dhk->bhlk", x, p["q"])
    k = jnp.einsum("bld,dhk->bhlk", x, p["k"])
    v = jnp.einsum("bld,dhk->bhlk", x, p["v"])
    n_heads, hd = q.shape[1], q.shape[3]

    s = jnp.einsum("bhqk,bhlk->bhql", q, k) / jnp.sqrt(hd)
    s = s + alibi_bias(n_heads, length)
    causal = jnp.tril(jnp.ones((length, length), bool))
    s = jnp.where(causal, s, jnp.finfo(s.dtype).min)
    w = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("bhql,bhlk,hkd->bqd", w, v, p["o"])


def rms(x, g):
    return g * x / jnp.sqrt(jnp.mean(x ** 2, -1, keepdims=True) + 1e-6)


def init_lm(key, vocab=256, d=64, n_heads=8, depth=2):
    k0, key = random.split(key)
    layers = []
    for k in random.split(key, depth):
        a, b, c = random.split(k, 3)
        layers.append({
            "attn": init_attn(a, d, n_heads), "g1": jnp.ones(d), "g2": jnp.ones(d),
            "up": random.normal(b, (d, 4 * d)) / jnp.sqrt(d),
            "down": random.normal(c, (4 * d, d)) / jnp.sqrt(4 * d),
        })
    return {"emb": random.normal(k0, (vocab, d)) * 0.02, "layers": layers, "gf": jnp.ones(d)}


@jax.jit
def forward(params, tokens):
    x = params["emb"][tokens]
    for lay in params["layers"]:
        x = x + alibi_attention(lay["attn"], rms(x, lay["g1"]))
        x = x + jax.nn.gelu(rms(x, lay["g2"]) @ lay["up"]) @ lay["down"]
    return rms(x, params["gf"]) @ params["emb"].T
