"""ll_blk: one decoder block of a llama-shaped LM in plain JAX, with a static cache.

P (dict of arrays)
  n1, n2 : (D,)          RMSNorm gains
  wq     : (D, H, d)
  wk, wv : (D, G, d)     G kv heads, H % G == 0; query heads g*(H//G) ... (g+1)*(H//G)-1
                         read kv head g
  wo     : (H, d, D)
  w1, w3 : (D, F), w2 : (F, D)   SwiGLU

x  : (B, T, D) the new tokens, which stand at absolute positions t0 .. t0+T-1
kc, vc : (B, S, G, d) caches with slots for S positions; slots 0 .. t0-1 are filled
         (keys are stored rotated), the rest is zeros (or stale finite
         numbers).
t0 : int or int32 scalar (may be traced), t0 + T <= S

Causal: position p sees the positions 0 .. p. Rotary embedding on pairs
(j, j + d/2) with angle p * base**(-2j/d).

Returns y (B, T, D), new kc, new vc.
"""
import jax
import jax.numpy as jnp
from jax import lax


def rms(x, g, eps=1e-6):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * g


def rot(x, p, base=10000.0):
    d = x.shape[-1]
    w = base ** (-jnp.arange(0, d, 2) / d)
    th = p[:, None] * w                              # (T, d/2)
    c, s = jnp.cos(th)[None, :, None], jnp.sin(th)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def ll_blk(P, x, kc, vc, t0):
    B, T, D = x.shape
    S, G = kc.shape[1:3]
    H, d = P["wq"].shape[1:]
    p = t0 + jnp.arange(T)

    u = rms(x, P["n1"])
    q = rot(jnp.einsum("btm,mhd->bthd", u, P["wq"]), p)
    k = rot(jnp.einsum("btm,mgd->btgd", u, P["wk"]), p)
    v = jnp.einsum("btm,mgd->btgd", u, P["wv"])
    kc = lax.dynamic_update_slice(kc, k.astype(kc.dtype), (0, t0, 0, 0))
    vc = lax.dynamic_update_slice(vc, v.astype(vc.dtype), (0, t0, 0, 0))

    q = q.reshape(B, T, G, H // G, d)
    z = jnp.einsum("btgrd,bsgd->bgrts", q, kc).astype(jnp.float32) * d ** -0.5
    see = jnp.arange(S)[None, :] <= p[:, None]       # (T, S), also hides the unfilled slots
    z = jnp.where(see, z, -jnp.inf)
    a = jax.nn.softmax(z, -1).astype(x.dtype)
    o = jnp.einsum("bgrts,bsgd->btgrd", a, vc).reshape(B, T, H, d)
    x = x + jnp.einsum("bthd,hdm->btm", o, P["wo"])

    u = rms(x, P["n2"])
    return x + (jax.nn.silu(u @ P["w1"]) * (u @ P["w3"])) @ P["w2"], kc, vc
