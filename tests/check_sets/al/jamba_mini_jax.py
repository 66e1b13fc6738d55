"""A small Mamba/attention hybrid (Jamba style) with functions over parameter pytrees.

Layer pattern: every `attn_every`-th layer is grouped-query attention (no position encoding,
the recurrent layers carry order), the others are a selective diagonal SSM.
All sequences are [T, D]; use jax.vmap for a batch.
"""
import jax
import jax.numpy as jnp


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def init_attn(key, dim, n_q, n_kv, hd):
    ks = jax.random.split(key, 4)
    s = dim ** -0.5
    return {"wq": jax.random.normal(ks[0], (dim, n_q, hd)) * s,
            "wk": jax.random.normal(ks[1], (dim, n_kv, hd)) * s,
            "wv": jax.random.normal(ks[2], (dim, n_kv, hd)) * s,
            "wo": jax.random.normal(ks[3], (n_q, hd, dim)) * (n_q * hd) ** -0.5}


def init_ssm(key, dim, state):
    ks = jax.random.split(key, 4)
    return {"A_log": jnp.log(jnp.arange(1.0, state + 1)) * jnp.ones((dim, 1)),
            "wB": jax.random.normal(ks[0], (dim, state)) * dim ** -0.5,
            "wC": jax.random.normal(ks[1], (dim, state)) * dim ** -0.5,
            "wdt": jax.random.normal(ks[2], (dim, dim)) * dim ** -0.5,
            "wz": jax.random.normal(ks[3], (dim, dim)) * dim ** -0.5}


def gqa(p, x, seg=None):
    """Causal attention, kv head g serves the query heads g*r .. g*r+r-1.

    seg: optional int [T] of document numbers (packed sequences); no attention between documents.
    """
    T = x.shape[0]
    hd = p["wq"].shape[-1]
    n_kv = p["wk"].shape[1]
    q = jnp.einsum("td,dhk->thk", x, p["wq"])
    q = q.reshape(T, n_kv, -1, hd)
    k = jnp.einsum("td,dgk->tgk", x, p["wk"])
    v = jnp.einsum("td,dgk->tgk", x, p["wv"])
    s = jnp.einsum("tgrk,ugk->grtu", q, k).astype(jnp.float32) * hd ** -0.5
    ok = jnp.tril(jnp.ones((T, T), bool))
    if seg is not None:
        ok &= seg[:, None] == seg[None, :]
    w = jax.nn.softmax(s, axis=-1, where=ok)
    y = jnp.einsum("grtu,ugk->tgrk", w.astype(v.dtype), v)
    return jnp.einsum("thk,hkd->td", y.reshape(T, -1, hd), p["wo"])


def ssm(p, x):
    dt = jax.nn.softplus(x @ p["wdt"])
    A = -jnp.exp(p["A_log"])
    B, C = x @ p["wB"], x @ p["wC"]

    def step(h, inp):
        xt, dtt, b, c = inp
        h = jnp.exp(dtt[:, None] * A) * h + dtt[:, None] * b[None] * xt[:, None]
        return h, h @ c

    _, y = jax.lax.scan(step, jnp.zeros(A.shape, x.dtype), (x, dt, B, C))
    return y * jax.nn.silu(x @ p["wz"])


def forward(params, x, cfg):
    for i, layer in enumerate(params["layers"]):
        h = rms(x, layer["norm"])
        x = x + (gqa(layer["mix"], h) if i % cfg["attn_every"] == cfg["attn_every"] - 1 else ssm(layer["mix"], h))
    return rms(x, params["norm"])
