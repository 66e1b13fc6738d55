"""SMILES generator conditioned on a property vector (JAX, no framework on top).

tokens  (B, T) int   <bos> followed by the characters
prop    (B, Pdim)    wanted properties, added to every position
-> (B, T, V) logits; logits[:, t] predict the character after tokens[:, t]

Teacher forcing: position t may use tokens 0..t (its own included) and nothing later.
Each head computes softmax(q k^T / sqrt(d)) v with d = D // heads.
"""
import jax
import jax.numpy as jnp


def init(rng, V, Pdim, D=64, heads=4, layers=2, max_len=120):
    ks = jax.random.split(rng, 4 + 6 * layers)
    mat = lambda k, a, b: jax.random.normal(k, (a, b)) / a ** 0.5
    p = {"tok": mat(ks[0], V, D), "pos": mat(ks[1], max_len, D), "prop": mat(ks[2], Pdim, D),
         "out": mat(ks[3], D, V), "layers": []}
    for i in range(layers):
        k = ks[4 + 6 * i: 10 + 6 * i]
        p["layers"].append({
            "q": mat(k[0], D, D), "k": mat(k[1], D, D), "v": mat(k[2], D, D), "o": mat(k[3], D, D),
            "w1": mat(k[4], D, 2 * D), "w2": mat(k[5], 2 * D, D),
        })
    return p


def ln(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attend(w, x, heads):
    B, T, D = x.shape
    d = D // heads
    q, k, v = ((x @ w[n]).reshape(B, T, heads, d) for n in "qkv")
    s = jnp.einsum("bihd,bjhd->bhij", q, k) / d ** -0.5
    see = jnp.tril(jnp.ones((T, T), bool), k=1)
    s = jnp.where(see, s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("bhij,bjhd->bihd", a, v).reshape(B, T, D) @ w["o"]


def decoder(p, tokens, prop, heads=4):
    T = tokens.shape[1]
    x = p["tok"][tokens] + p["pos"][:T] + (prop @ p["prop"])[:, None, :]
    for w in p["layers"]:
        x = x + attend(w, ln(x), heads)
        x = x + jax.nn.relu(ln(x) @ w["w1"]) @ w["w2"]
    return ln(x) @ p["out"]


def loss(p, tokens, prop, pad_id=0):
    """mean next-character cross entropy; pad_id positions do not count as targets"""
    lp = jax.nn.log_softmax(decoder(p, tokens[:, :-1], prop))
    goal = tokens[:, 1:]
    nll = -jnp.take_along_axis(lp, goal[..., None], axis=-1)[..., 0]
    keep = goal != pad_id
    return (nll * keep).sum() / keep.sum()
