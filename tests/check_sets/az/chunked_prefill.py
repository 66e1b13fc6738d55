"""Chunked prefill for the toy TPU server (plain JAX).

Long prompts are fed in chunks of a fixed size so that decoding requests are never held
up for long.  The cache is preallocated, so shapes stay static and nothing recompiles:

    cache["k"], cache["v"]   [layers, batch, max_len, heads, head_dim]
    cache["len"]             int32, tokens already in the cache (same for the whole batch)
"""
import functools
import typing as tp

import jax
import jax.numpy as jnp
from jax.lax import dynamic_update_slice


class Shape(tp.NamedTuple):
    layers: int
    heads: int
    head_dim: int
    vocab: int
    max_len: int

    @property
    def model(self):
        return self.heads * self.head_dim


def empty_cache(sh: Shape, batch: int, dtype=jnp.float32):
    size = (sh.layers, batch, sh.max_len, sh.heads, sh.head_dim)
    return {"k": jnp.zeros(size, dtype), "v": jnp.zeros(size, dtype), "len": jnp.int32(0)}


def init_weights(rng, sh: Shape):
    r = jax.random.split(rng, 7)
    m, hd = sh.model, (sh.heads, sh.head_dim)
    n = lambda k, s, f: jax.random.normal(k, s) * f ** -0.5     # noqa: E731
    return {
        "tok": n(r[0], (sh.vocab, m), 1.0),
        "pos": n(r[1], (sh.max_len, m), 25.0),
        "q": n(r[2], (sh.layers, m) + hd, m),
        "k": n(r[3], (sh.layers, m) + hd, m),
        "v": n(r[4], (sh.layers, m) + hd, m),
        "o": n(r[5], (sh.layers,) + hd + (m,), m),
        "mlp": n(r[6], (sh.layers, m, m), m),
    }


def ln(x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5)


def attend_with_cache(q, k_all, v_all, used):
    """Causal attention of a chunk against everything in the cache.

    q            [b, t, h, d]   the new chunk, whose keys are already written
    k_all, v_all [b, s, h, d]   whole cache, s = max_len
    used         scalar         tokens that were there before this chunk
    """
    t, s = q.shape[1], k_all.shape[1]
    w = jnp.einsum("bthd,bshd->bhts", q, k_all) / jnp.sqrt(q.shape[-1])
    written = jnp.arange(s) < used + t
    causal = jnp.tril(jnp.ones((t, s), dtype=bool))
    w = jnp.where(causal & written[None, :], w, -jnp.inf)
    w = jax.nn.softmax(w.astype(jnp.float32), axis=-1).astype(q.dtype)
    return jnp.einsum("bhts,bshd->bthd", w, v_all)


@functools.partial(jax.jit, static_argnames=("sh",), donate_argnames=("cache",))
def run_chunk(weights, cache, tokens, sh: Shape):
    """tokens [b, t] -> logits for the last of them, and the longer cache."""
    used = cache["len"]
    t = tokens.shape[1]
    x = weights["tok"][tokens] + jax.lax.dynamic_slice_in_dim(weights["pos"], used, t)[None]
    ks, vs = cache["k"], cache["v"]
    for i in range(sh.layers):
        h = ln(x)
        q = jnp.einsum("btm,mhd->bthd", h, weights["q"][i])
        k = jnp.einsum("btm,mhd->bthd", h, weights["k"][i])
        v = jnp.einsum("btm,mhd->bthd", h, weights["v"][i])
        ks = dynamic_update_slice(ks, k[None].astype(ks.dtype), (i, 0, used, 0, 0))
        vs = dynamic_update_slice(vs, v[None].astype(vs.dtype), (i, 0, used, 0, 0))
        y = attend_with_cache(q, ks[i], vs[i], used)
        x = x + jnp.einsum("bthd,hdm->btm", y, weights["o"][i])
        x = x + jax.nn.gelu(ln(x) @ weights["mlp"][i])
    logits = ln(x[:, -1]) @ weights["tok"].T
    return logits, {"k": ks, "v": vs, "len": used + t}


class Scheduler:
    def __init__(self, weights, sh: Shape, chunk=4):
        self.weights, self.sh, self.chunk = weights, sh, chunk

    def prefill(self, prompt):
        cache = empty_cache(self.sh, prompt.shape[0])
        logits = None
        for a in range(0, prompt.shape[1], self.chunk):
            logits, cache = run_chunk(self.weights, cache, prompt[:, a:a + self.chunk], self.sh)
        return logits, cache

    def generate(self, prompt, n):
        logits, cache = self.prefill(prompt)
        out = []
        for _ in range(n):
            nxt = jnp.argmax(logits, -1)[:, None]
            out.append(nxt)
            logits, cache = run_chunk(self.weights, cache, nxt, self.sh)
        return jnp.concatenate(out, 1)


if __name__ == "__main__":
    sh = Shape(2, 4, 8, 50, 32)
    sched = Scheduler(init_weights(jax.random.PRNGKey(0), sh), sh)
    print(sched.generate(jnp.arange(22).reshape(2, 11), 6))
