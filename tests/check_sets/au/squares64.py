"""Policy/value net of a small chess engine in plain JAX. 64 tokens, one per square.

Scores get a bias that is generated from the whole position ("smolgen"), so
that a pinned bishop's diagonal can open and close with the position.
"""
import jax
import jax.numpy as jnp

PLANES = 18


def dense(key, i, o):
    return {"w": jax.random.normal(key, (i, o)) * i ** -0.5, "b": jnp.zeros(o)}


def ap(p, x):
    return x @ p["w"] + p["b"]


def ln(x, g):
    m = x.mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g


def init_block(key, d, heads, squeeze=8, gen=32):
    ks = jax.random.split(key, 9)
    return {"q": dense(ks[0], d, d), "k": dense(ks[1], d, d), "v": dense(ks[2], d, d), "o": dense(ks[3], d, d),
            "sq": dense(ks[4], d, squeeze), "g1": dense(ks[5], 64 * squeeze, heads * gen),
            "g2": dense(ks[6], gen, 64 * 64), "f1": dense(ks[7], d, 2 * d), "f2": dense(ks[8], 2 * d, d),
            "n1": jnp.ones(d), "n2": jnp.ones(d)}


def smolgen(p, x, heads):
    B = x.shape[0]
    z = ap(p["sq"], x).reshape(B, -1)
    z = jax.nn.silu(ap(p["g1"], z)).reshape(B, heads, -1)
    return ap(p["g2"], z).reshape(B, heads, 64, 64)


def board_attention(p, x, heads):
    """x [B, 64, d]; every square sees every square."""
    B, S, d = x.shape
    split = lambda t: t.reshape(B, S, heads, d // heads)
    q, k, v = split(ap(p["q"], x)), split(ap(p["k"], x)), split(ap(p["v"], x))
    logits = jnp.einsum("bihc,bjhc->bhij", q, k) * (d // heads) ** -0.5
    logits = logits + smolgen(p, x, heads)
    w = jax.nn.softmax(logits, axis=-1)
    return ap(p["o"], jnp.einsum("bhij,bjhc->bihc", w, v).reshape(B, S, d))


def block(p, x, heads):
    x = ln(x + board_attention(p, x, heads), p["n1"])
    return ln(x + ap(p["f2"], jax.nn.relu(ap(p["f1"], x)) ** 2), p["n2"])


def init(key, d=64, heads=4, layers=2):
    ks = jax.random.split(key, layers + 4)
    return {"emb": dense(ks[0], PLANES, d), "pos": jax.random.normal(ks[1], (64, d)) * 0.02,
            "from": dense(ks[2], d, d), "to": dense(ks[3], d, d),
            "val": dense(ks[3], d, 3), "blocks": [init_block(k, d, heads) for k in ks[4:]]}


def evaluate(params, planes, legal, heads=4):
    """planes [B, 64, PLANES]; legal bool [B, 64, 64] from-square x to-square (at least one legal move)."""
    x = ap(params["emb"], planes) + params["pos"]
    for p in params["blocks"]:
        x = block(p, x, heads)
    mv = jnp.einsum("bic,bjc->bij", ap(params["from"], x), ap(params["to"], x))
    mv = jnp.where(legal, mv / x.shape[-1] ** 0.5, -jnp.inf).reshape(x.shape[0], -1)
    return jax.nn.log_softmax(mv, -1), jax.nn.log_softmax(ap(params["val"], x.mean(1)), -1)
