"""Restoring damaged stelae: a glyph-by-glyph decoder in Flax linen.

The decoder is trained on whole lines (``decode=False``) and, in the museum app, runs
glyph by glyph or a few glyphs at a time (``decode=True``) with the Flax "cache"
collection.  The cache keeps keys *before* rotation, so that a line can be cut at the
front without touching the rest; keys are rotated when they are read.
"""
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp


def rope_angles(n, dim, base=1e4):
    inv = base ** (-jnp.arange(0, dim, 2) / dim)
    return jnp.arange(n)[:, None] * inv[None]


def apply_rope(x, ang):
    """x [..., L, dim], ang [L, dim / 2]; pairs (j, j + dim / 2)."""
    c, s = jnp.cos(ang), jnp.sin(ang)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, a * s + b * c], axis=-1)


class GlyphAttention(nn.Module):
    """Causal self-attention, relative rotary positions, multi-query (one k/v head).

    decode=False: x is a whole line [B, L, width].
    decode=True:  x are the next glyphs of the line.  Take an empty cache from ``init``, then
                  ``apply`` with ``mutable=["cache"]``.  The result equals that of the whole line.
    """

    heads: int
    dim: int
    max_line: int = 64
    decode: bool = False

    @nn.compact
    def __call__(self, x):
        B, L, width = x.shape
        dense = partial(nn.DenseGeneral, use_bias=False)
        q = dense((self.heads, self.dim), name="q")(x).swapaxes(1, 2)      # B H L d
        k = dense(self.dim, name="k")(x)                                   # B L d
        v = dense(self.dim, name="v")(x)

        start = 0
        if self.decode:
            ready = self.has_variable("cache", "past_k")
            shape = (B, self.max_line, self.dim)
            ck = self.variable("cache", "past_k", jnp.zeros, shape, x.dtype)
            cv = self.variable("cache", "past_v", jnp.zeros, shape, x.dtype)
            n = self.variable("cache", "length", lambda: jnp.zeros((), jnp.int32))
            if ready:
                start = n.value
                ck.value = jax.lax.dynamic_update_slice(ck.value, k, (0, start, 0))
                cv.value = jax.lax.dynamic_update_slice(cv.value, v, (0, start, 0))
                n.value = start + L
                k, v = ck.value, cv.value

        S = k.shape[1]
        angles = rope_angles(max(S, L), self.dim)
        q = apply_rope(q, angles[:L])
        k = apply_rope(k, angles[:S])

        s = jnp.einsum("bhld,bsd->bhls", q, k) / jnp.sqrt(self.dim)
        ok = jnp.arange(S)[None] <= start + jnp.arange(L)[:, None]
        s = jnp.where(ok, s, jnp.finfo(s.dtype).min)
        p = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bhls,bsd->blhd", p, v)
        return nn.DenseGeneral(width, axis=(-2, -1), use_bias=False, name="o")(y)


class StelaLayer(nn.Module):
    heads: int = 4
    dim: int = 16
    decode: bool = False

    @nn.compact
    def __call__(self, x):
        x = x + GlyphAttention(self.heads, self.dim, decode=self.decode)(nn.LayerNorm()(x))
        h = nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class StelaDecoder(nn.Module):
    signs: int = 700
    width: int = 64
    depth: int = 2
    decode: bool = False

    @nn.compact
    def __call__(self, glyphs):
        emb = nn.Embed(self.signs, self.width)
        x = emb(glyphs)
        for _ in range(self.depth):
            x = StelaLayer(decode=self.decode)(x)
        return emb.attend(nn.LayerNorm()(x))


def restore(params, prefix, n, width=64):
    """Greedy continuation of a readable prefix [1, L] by n glyphs."""
    net = StelaDecoder(width=width, decode=True)
    cache = net.init(jax.random.PRNGKey(0), prefix)["cache"]
    logits, upd = net.apply({"params": params, "cache": cache}, prefix, mutable=["cache"])
    out = []
    for _ in range(n):
        g = logits[:, -1:].argmax(-1)
        out.append(g)
        logits, upd = net.apply({"params": params, **upd}, g, mutable=["cache"])
    return jnp.concatenate(out, 1)
