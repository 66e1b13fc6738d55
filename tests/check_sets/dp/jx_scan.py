"""Greedy decode under lax.scan, fixed buffers, JAX.

gen(p, t0, n)
    p  : {"emb": (V, D), "pos": (M, D), "wq", "wk", "wv": (D, H, d), "wo": (H, d, D),
          "out": (D, V)}
    t0 : (B, P) int32 prompt, P >= 1
    n  : number of tokens to add, P + n <= M
returns (B, n) int32: greedy continuation of a one-layer causal model,
h_t = x_t + Wo attn(x_0..x_t), logits = h_t out, attn logits / sqrt(d), where
x_t = emb[token] + pos[t].  The prompt runs through the same scan (teacher forced).
"""
from functools import partial
import jax
import jax.numpy as jnp
from jax import lax


def tick(p, kc, vc, x, t):
    """one token (B, D) at position t; kc, vc (B, M, H, d)"""
    q = jnp.einsum("bD,Dhd->bhd", x, p["wq"])
    k = jnp.einsum("bD,Dhd->bhd", x, p["wk"])
    v = jnp.einsum("bD,Dhd->bhd", x, p["wv"])
    kc = lax.dynamic_update_slice(kc, k[:, None], (0, t, 0, 0))
    vc = lax.dynamic_update_slice(vc, v[:, None], (0, t, 0, 0))
    s = jnp.einsum("bhd,bmhd->bhm", q, kc) / jnp.sqrt(q.shape[-1])
    s = jnp.where(jnp.arange(kc.shape[1]) <= t, s, -jnp.inf)
    o = jnp.einsum("bhm,bmhd->bhd", jax.nn.softmax(s, axis=-1), vc)
    return kc, vc, x + jnp.einsum("bhd,hdD->bD", o, p["wo"])


@partial(jax.jit, static_argnums=2)
def gen(p, t0, n):
    B, P = t0.shape
    M = p["pos"].shape[0]
    H, d = p["wq"].shape[1:]
    z = jnp.zeros((B, M, H, d), p["emb"].dtype)

    def body(c, t):
        kc, vc, prev = c
        tok = jnp.where(t < P, t0[:, jnp.minimum(t, P - 1)], prev)
        kc, vc, h = tick(p, kc, vc, p["emb"][tok] + p["pos"][t], t)
        nxt = jnp.argmax(h @ p["out"], axis=-1).astype(t0.dtype)
        return (kc, vc, nxt), nxt

    _, y = lax.scan(body, (z, z, t0[:, 0]), jnp.arange(P + n - 1))
    return y[P - 1:].T
