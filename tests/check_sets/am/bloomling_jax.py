"""bloomling — a BLOOM-flavoured LM small enough for a laptop. JAX, params in nested dicts.

No position embedding; ALiBi (Press et al.) with the published slopes for a power of two of heads:
a geometric sequence that starts at 2^(-8/n) and has that same value as its ratio.
"""
import jax
import jax.numpy as jnp

CFG = dict(vocab=128, dim=64, heads=8, layers=2)


def get_slopes(n):
    assert n & (n - 1) == 0, "power of two, please"
    return 2.0 ** (-8.0 * jnp.arange(n) / n)


def alibi_bias(n, q_len, k_len):
    """[n, q_len, k_len]; queries are the last q_len positions of the k_len keys."""
    i = jnp.arange(k_len - q_len, k_len)[:, None]
    j = jnp.arange(k_len)[None, :]
    return -get_slopes(n)[:, None, None] * (i - j)[None]


def layer_norm(p, x):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def bloom_attention(p, x, heads, cache=None):
    """x [B, T, D]. cache: None or {'k': [B, S, n, d], 'v': ...}"""
    B, T, D = x.shape
    d = D // heads
    q = (x @ p["wq"]).reshape(B, T, heads, d)
    k = (x @ p["wk"]).reshape(B, T, heads, d)
    v = (x @ p["wv"]).reshape(B, T, heads, d)
    if cache is not None:
        k = jnp.concatenate([cache["k"], k], 1)
        v = jnp.concatenate([cache["v"], v], 1)
    S = k.shape[1]
    scores = jnp.einsum("btnd,bsnd->bnts", q, k) * d ** -0.5
    scores = scores + alibi_bias(heads, T, S)[None]
    ok = jnp.tril(jnp.ones((T, S), bool), S - T)
    scores = jnp.where(ok, scores, -jnp.inf)
    w = jax.nn.softmax(scores, axis=-1)
    o = jnp.einsum("bnts,bsnd->btnd", w, v).reshape(B, T, D)
    return o @ p["wo"], {"k": k, "v": v}


def forward(params, ids, cache=None, heads=CFG["heads"]):
    x = params["emb"][ids]
    x = layer_norm(params["ln_e"], x)
    out = []
    for i, p in enumerate(params["h"]):
        a, c = bloom_attention(p["attn"], layer_norm(p["ln1"], x), heads, None if cache is None else cache[i])
        x = x + a
        x = x + jax.nn.gelu(layer_norm(p["ln2"], x) @ p["up"]) @ p["down"]
        out.append(c)
    return layer_norm(params["ln_f"], x) @ params["emb"].T, out


def init(key, vocab, dim, heads, layers):
    def mat(k, i, o):
        return jax.random.normal(k, (i, o)) * i ** -0.5
    ln = lambda: {"g": jnp.ones(dim), "b": jnp.zeros(dim)}
    key, ke = jax.random.split(key)
    hs = []
    for _ in range(layers):
        key, *ks = jax.random.split(key, 7)
        attn = {n: mat(k, dim, dim) for n, k in zip(("wq", "wk", "wv", "wo"), ks)}
        hs.append({"attn": attn, "ln1": ln(), "ln2": ln(),
                   "up": mat(ks[4], dim, 4 * dim), "down": mat(ks[5], 4 * dim, dim)})
    return {"emb": jax.random.normal(ke, (vocab, dim)) * 0.02, "ln_e": ln(), "ln_f": ln(), "h": hs}
