"""Symbolic music (REMI tokens) language model in JAX: prefill the prompt, then sample token by token.

Positions are rotary, GPT-NeoX layout. `cache_index` is the number of tokens already in the cache.
"""
import jax
import jax.numpy as jnp
import numpy as np

HEADS, HEAD_DIM = 4, 8
DIM = HEADS * HEAD_DIM


def rotary_table(positions, dim=HEAD_DIM, base=10000):
    inv = 1.0 / base ** (jnp.arange(0, dim, 2) / dim)
    f = jnp.einsum("t,f->tf", positions.astype(jnp.float32), inv)
    f = jnp.concatenate([f, f], axis=-1)
    return jnp.sin(f), jnp.cos(f)


def rotate(x, sin, cos):
    a, b = jnp.split(x, 2, axis=-1)
    return x * cos[:, None] + jnp.concatenate([-b, a], axis=-1) * sin[:, None]


def cached_self_attention(w, x, cache, cache_index):
    """x [T, DIM]; cache {"k","v"}: [MAX, HEADS, HEAD_DIM]. Returns y [T, DIM] and the new cache.

    feeding a sequence in pieces gives the same result as feeding it at once.
    """
    T = x.shape[0]
    q = (x @ w["q"]).reshape(T, HEADS, HEAD_DIM)
    k = (x @ w["k"]).reshape(T, HEADS, HEAD_DIM)
    v = (x @ w["v"]).reshape(T, HEADS, HEAD_DIM)
    sin, cos = rotary_table(jnp.arange(T))
    q = rotate(q, sin, cos)
    k = rotate(k, sin, cos)
    ck = jax.lax.dynamic_update_slice(cache["k"], k, (cache_index, 0, 0))
    cv = jax.lax.dynamic_update_slice(cache["v"], v, (cache_index, 0, 0))
    logits = jnp.einsum("qhd,khd->hqk", q, ck) / np.sqrt(HEAD_DIM)
    q_pos = cache_index + jnp.arange(T)
    visible = jnp.arange(ck.shape[0])[None, :] <= q_pos[:, None]
    logits = jnp.where(visible[None], logits, -1e30)
    probs = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("hqk,khd->qhd", probs, cv).reshape(T, DIM)
    return y @ w["o"], {"k": ck, "v": cv}


def norm(x, g):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g


def model(params, ids, caches, cache_index):
    x = params["emb"][ids]
    out = []
    for w, c in zip(params["layers"], caches):
        y, c = cached_self_attention(w, norm(x, w["g1"]), c, cache_index)
        x = x + y
        x = x + jax.nn.gelu(norm(x, w["g2"]) @ w["up"]) @ w["down"]
        out.append(c)
    return norm(x, params["g"]) @ params["emb"].T, out


def init_params(key, vocab=120, depth=2):
    ks = jax.random.split(key, depth * 6 + 1)
    lin = lambda k, i, o: jax.random.normal(k, (i, o)) / np.sqrt(i)
    layers = []
    for n in range(depth):
        a = ks[6 * n: 6 * n + 6]
        layers.append({"q": lin(a[0], DIM, DIM), "k": lin(a[1], DIM, DIM), "v": lin(a[2], DIM, DIM),
                       "o": lin(a[3], DIM, DIM), "up": lin(a[4], DIM, 4 * DIM), "down": lin(a[5], 4 * DIM, DIM),
                       "g1": jnp.ones(DIM), "g2": jnp.ones(DIM)})
    return {"emb": jax.random.normal(ks[-1], (vocab, DIM)) * 0.3, "layers": layers, "g": jnp.ones(DIM)}


def new_caches(depth, max_len):
    z = jnp.zeros((max_len, HEADS, HEAD_DIM))
    return [{"k": z, "v": z} for _ in range(depth)]


def compose(params, prompt, n, key, temperature=1.1):
    caches = new_caches(len(params["layers"]), len(prompt) + n)
    logits, caches = model(params, jnp.asarray(prompt), caches, 0)
    song = list(prompt)
    for _ in range(n):
        key, sub = jax.random.split(key)
        tok = int(jax.random.categorical(sub, logits[-1] / temperature))
        song.append(tok)
        logits, caches = model(params, jnp.asarray([tok]), caches, len(song) - 1)
    return song
