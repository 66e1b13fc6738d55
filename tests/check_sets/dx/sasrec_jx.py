"""SASRec (Kang & McAuley 2018) scoring in JAX, for the second-hand shop recommender.

items : (B, T) int32, the user's history, LEFT padded with 0; real item ids start at 1
score(params, items, cand) -> (B, n): dot product of the last position with the candidates
params: "emb" (V+1, d), "pos" (T, d), and a list "blocks" with wq wk wv (d, d), w1 w2 (d, d),
b1 b2 (d,), and layer norms ln1 ln2, each a pair (gain, shift); "ln" for the end.

As in the authors' code: one head, the embedding is multiplied with sqrt(d), only the queries
are normalised, the residual comes from the normalised queries, padding positions are set back
to zero after every block. Position t sees the real items at positions <= t.
"""
import jax
import jax.numpy as jnp


def layer_norm(x, gs, eps=1e-8):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return gs[0] * (x - mu) * jax.lax.rsqrt(var + eps) + gs[1]


def block(p, x, real):
    T, d = x.shape[1], x.shape[2]
    n = layer_norm(x, p["ln1"])
    q, k, v = n @ p["wq"], x @ p["wk"], x @ p["wv"]
    logits = jnp.einsum("bid,bjd->bij", q, k) / jnp.sqrt(d)
    allowed = jnp.tril(jnp.ones((T, T), bool))[None] & real[:, None, :]
    w = jax.nn.softmax(jnp.where(allowed, logits, -1e9), axis=-1)
    x = n + jnp.einsum("bij,bjd->bid", w, v)
    n = layer_norm(x, p["ln2"])
    h = jax.nn.relu(n @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
    # a padding row has nothing to see and holds rubbish up to here
    return (n + h) * real[..., None]


def score(params, items, cand):
    real = items > 0
    d = params["emb"].shape[1]
    x = params["emb"][items] * jnp.sqrt(d) + params["pos"]
    x = x * real[..., None]
    for p in params["blocks"]:
        x = block(p, x, real)
    last = layer_norm(x, params["ln"])[:, -1]
    return last @ params["emb"][cand].T
