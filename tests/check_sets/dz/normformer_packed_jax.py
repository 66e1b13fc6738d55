"""NormFormer decoder block over packed rows, in plain JAX.

Several short documents are packed into one row of length T; `seg` says which.

    x     (N, T, D)  float
    seg   (N, T)     int, document number of every token; documents are contiguous
    out   (N, T, D)

Token t sees token s iff s <= t and seg[s] == seg[t].  NormFormer additions: a learned scalar
per head on the head's output ("head scale"), a LayerNorm after attention, and one inside the FFN.
"""
import jax
import jax.numpy as jnp


def init(key, D, H, F):
    k = jax.random.split(key, 4)
    g = lambda kk, *s: jax.random.normal(kk, s) / jnp.sqrt(s[0])
    ln = lambda n: {"g": jnp.ones(n), "b": jnp.zeros(n)}
    return {"wqkv": g(k[0], D, 3, H, D // H), "wo": g(k[1], H, D // H, D) / jnp.sqrt(D // H),
            "w1": g(k[2], D, F), "w2": g(k[3], F, D), "head": jnp.linspace(0.5, 1.5, H),
            "ln_a": ln(D), "ln_post": ln(D), "ln_f": ln(D), "ln_mid": ln(F)}


def norm(p, x, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    return p["g"] * (x - m) / jnp.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + eps) + p["b"]


def _row(p, x, seg):
    T = x.shape[0]
    q, k, v = jnp.einsum("td,dchk->cthk", norm(p["ln_a"], x), p["wqkv"])
    logits = jnp.einsum("thk,shk->tsh", q, k) / jnp.sqrt(q.shape[-1])
    t = jnp.arange(T)
    ok = (t[None, :] <= t[:, None]) & (seg[None, :] == seg[:, None])
    w = jax.nn.softmax(jnp.where(ok[..., None], logits, -jnp.inf), axis=1)
    heads = jnp.einsum("tsh,shk->thk", w, v) * p["head"][:, None]
    x = x + norm(p["ln_post"], jnp.einsum("thk,hkd->td", heads, p["wo"]))
    f = norm(p["ln_mid"], jax.nn.gelu(norm(p["ln_f"], x) @ p["w1"]))
    return x + f @ p["w2"]


def normformer_block(params, x, seg):
    return jax.vmap(_row, in_axes=(None, 0, 0))(params, x, seg)
