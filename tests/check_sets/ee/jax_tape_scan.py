"""Turing-tape reading of causal attention, in JAX, one symbol per tick.

The machine writes what it sees on square t of a tape of fixed length and then reads all
the squares 0..t.  This must give the same numbers as ordinary causal multi-head
self-attention over the whole sequence (a symbol sees itself and what came before).

params: dict
    "ask", "mark", "say"   (D, G, E)   D = width of a symbol, G heads, E per head
    "out"                  (G, E, D)
rollout(params, xs):  xs (T, D)  ->  (T, D).   Use jax.vmap(..., (None, 0)) for a batch.
Logits are divided by sqrt(E).  No positions, no bias, no dropout.
"""
import jax
import jax.numpy as jnp
from jax import lax


def blank_tape(T, G, E, dtype):
    return jnp.zeros((T, G, E), dtype), jnp.zeros((T, G, E), dtype)


def tick(params, tape, now):
    t, x = now
    marks, says = tape
    mark = jnp.einsum("d,dge->ge", x, params["mark"])
    say = jnp.einsum("d,dge->ge", x, params["say"])
    marks = lax.dynamic_update_index_in_dim(marks, mark, t, 0)
    says = lax.dynamic_update_index_in_dim(says, say, t, 0)

    ask = jnp.einsum("d,dge->ge", x, params["ask"]) / jnp.sqrt(mark.shape[-1])
    pull = jnp.einsum("ge,tge->gt", ask, marks)
    written = jnp.arange(marks.shape[0]) <= t
    share = jax.nn.softmax(pull, axis=-1, where=written[None, :])
    read = jnp.einsum("gt,tge->ge", share, says)
    return (marks, says), jnp.einsum("ge,ged->d", read, params["out"])


def rollout(params, xs):
    T = xs.shape[0]
    _, G, E = params["ask"].shape
    tape = blank_tape(T, G, E, xs.dtype)
    _, ys = lax.scan(lambda s, n: tick(params, s, n), tape, (jnp.arange(T), xs))
    return ys
