"""assay_chunks -- long-document prefill for the hallmark register, in plain JAX.

Registers of an assay office run to a hundred thousand tokens, so the prompt is fed in chunks.
Each chunk is appended to the layer's cache and attends to the whole cache, causally: a token sees
every token of earlier chunks, and of its own chunk those up to itself.  Decoding is the
special case of chunks of length one.
"""
from __future__ import annotations

import functools
import math
from typing import Dict, List, NamedTuple

import jax
import jax.numpy as jnp

Params = Dict[str, jax.Array]


class LayerCache(NamedTuple):
    k: jax.Array      # [B, H, S, D]
    v: jax.Array

    @classmethod
    def empty(cls, batch, heads, dim, dtype=jnp.float32):
        z = jnp.zeros((batch, heads, 0, dim), dtype)
        return cls(z, z)

    def append(self, k, v):
        return LayerCache(jnp.concatenate([self.k, k], 2), jnp.concatenate([self.v, v], 2))


def init_layer(key, dim=24, heads=3) -> Params:
    names = ("wq", "wk", "wv", "wo")
    return {n: jax.random.normal(k, (dim, dim)) / math.sqrt(dim) for n, k in zip(names, jax.random.split(key, 4))} \
        | {"norm": jnp.ones(dim)}


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


@functools.partial(jax.jit, static_argnames="heads")
def attend_chunk(params: Params, x: jax.Array, cache: LayerCache, heads: int = 3):
    """x [B, T, C] -> ([B, T, C], cache with T more entries)."""
    b, t, c = x.shape

    def split(y):
        return y.reshape(b, t, heads, c // heads).transpose(0, 2, 1, 3)

    q = split(x @ params["wq"])
    cache = cache.append(split(x @ params["wk"]), split(x @ params["wv"]))
    logits = jnp.einsum("bhtd,bhsd->bhts", q, cache.k) / math.sqrt(c // heads)
    visible = jnp.tril(jnp.ones((t, cache.k.shape[2]), dtype=bool))
    logits = jnp.where(visible, logits, -1e30)
    y = jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(logits, -1), cache.v)
    return y.transpose(0, 2, 1, 3).reshape(b, t, c) @ params["wo"], cache


class Register:
    def __init__(self, key, vocab=50, dim=24, heads=3, layers=2, chunk=6):
        k_emb, *k_layers = jax.random.split(key, layers + 1)
        self.emb = jax.random.normal(k_emb, (vocab, dim)) * 0.5
        self.layers: List[Params] = [init_layer(k, dim, heads) for k in k_layers]
        self.heads, self.chunk = heads, chunk

    def start(self, batch):
        dim = self.emb.shape[1]
        return [LayerCache.empty(batch, self.heads, dim // self.heads) for _ in self.layers]

    def feed(self, ids, caches):
        h, new = self.emb[ids], []
        for p, cache in zip(self.layers, caches):
            y, cache = attend_chunk(p, rms_norm(h, p["norm"]), cache, heads=self.heads)
            h = h + y
            new.append(cache)
        return h @ self.emb.T, new

    def prefill(self, ids):
        caches = self.start(ids.shape[0])
        for s in range(0, ids.shape[1], self.chunk):
            logits, caches = self.feed(ids[:, s:s + self.chunk], caches)
        return logits[:, -1], caches

    def generate(self, ids, n):
        logits, caches = self.prefill(ids)
        out = []
        for _ in range(n):
            tok = logits.argmax(-1)[:, None]
            out.append(tok)
            logits, caches = self.feed(tok, caches)
            logits = logits[:, -1]
        return jnp.concatenate(out, 1)


if __name__ == "__main__":
    reg = Register(jax.random.PRNGKey(1478))
    print(reg.generate(jnp.arange(14)[None] % 50, 4))
