"""Memory-lean attention with lax.scan over key blocks (TPU notes, forward only)."""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def pad_to(x, multiple, axis):
    extra = -x.shape[axis] % multiple
    if not extra:
        return x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, extra)
    return jnp.pad(x, widths)


@functools.partial(jax.jit, static_argnames=("block",))
def scan_attention(q, k, v, lengths, block=8):
    """softmax(q k^T / sqrt(d)) v without the full score matrix.

    q (B, Lq, H, d), k and v (B, Lk, H, d), lengths (B,) number of usable keys (>= 1).
    """
    B, Lq, H, d = q.shape
    k, v = pad_to(k, block, 1), pad_to(v, block, 1)
    nb = k.shape[1] // block
    kb = k.reshape(B, nb, block, H, d).swapaxes(0, 1)
    vb = v.reshape(B, nb, block, H, d).swapaxes(0, 1)
    starts = jnp.arange(nb) * block
    q = q * d ** -0.5

    def body(carry, xs):
        acc, top, den = carry
        kc, vc, s0 = xs
        s = jnp.einsum("bqhd,bkhd->bhqk", q, kc)
        usable = s0 + jnp.arange(block)[None] < lengths[:, None]
        s = jnp.where(usable[:, None, None], s, -1e30)
        new_top = jnp.maximum(top, s.max(-1))
        p = jnp.exp(s - new_top[..., None])
        fix = jnp.exp(top - new_top)
        den = den * fix + p.sum(-1)
        acc = acc + jnp.einsum("bhqk,bkhd->bhqd", p, vc)
        return (acc, new_top, den), None

    init = (jnp.zeros((B, H, Lq, d)), jnp.full((B, H, Lq), -1e30), jnp.zeros((B, H, Lq)))
    (acc, _, den), _ = lax.scan(body, init, (kb, vb, starts))
    return (acc / den[..., None]).swapaxes(1, 2)


def init_layer(key, d_model, n_head):
    ks = jax.random.split(key, 4)
    mats = [jax.random.normal(kk, (d_model, d_model)) / jnp.sqrt(d_model) for kk in ks]
    return dict(zip(("q", "k", "v", "o"), mats)), n_head


def cross_layer(params, n_head, x, memory, lengths, block=8):
    """x (B, Lq, D) looks at memory (B, Lk, D)"""
    def split(t):
        return t.reshape(*t.shape[:2], n_head, -1)

    y = scan_attention(split(x @ params["q"]), split(memory @ params["k"]), split(memory @ params["v"]),
                       lengths, block=block)
    return x + y.reshape(x.shape) @ params["o"]


def peak_floats(B, H, Lq, Lk, d, block):
    """rough count of live floats, scan against dense"""
    return {"scan": B * H * Lq * (block + d + 2), "dense": B * H * Lq * (Lk + d)}
