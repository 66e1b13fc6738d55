"""Answer to "Smallest GPT block in jax.numpy that still trains".

Decoder-only: token t is predicted from tokens before it, so position i of the block may look at
positions 0..i and at nothing later.  Pre-norm, one residual for attention, one for the MLP.
"""
import jax
import jax.numpy as jnp


def init_block(key, d, heads):
    ks = jax.random.split(key, 4)
    n = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return dict(qkv=n(ks[0], d, 3 * d), o=n(ks[1], d, d), up=n(ks[2], d, 4 * d), down=n(ks[3], 4 * d, d)), heads


def ln(x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def block(w, heads, x):
    """x: (batch, T, d) -> (batch, T, d), T >= 1"""
    b, T, d = x.shape
    e = d // heads
    q, k, v = jnp.split(ln(x) @ w["qkv"], 3, axis=-1)
    q, k, v = (t.reshape(b, T, heads, e) for t in (q, k, v))
    s = jnp.einsum("bihe,bjhe->bhij", q, k) / jnp.sqrt(e)
    vis = jnp.tril(jnp.ones((T, T), bool), k=1)
    s = jnp.where(vis, s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhij,bjhe->bihe", a, v).reshape(b, T, d)
    x = x + y @ w["o"]
    return x + jax.nn.gelu(ln(x) @ w["up"]) @ w["down"]


def nll(w, heads, emb, toks):
    """mean next-token loss; emb (V, d) tied, toks (batch, T+1) int"""
    h = block(w, heads, emb[toks[:, :-1]])
    lp = jax.nn.log_softmax(ln(h) @ emb.T, -1)
    return -jnp.take_along_axis(lp, toks[:, 1:, None], -1).mean()
