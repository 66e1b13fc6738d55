"""MIDI continuation in JAX: causal self attention with ALiBi instead of positions.

midi_attention(p, x): p is a dict of arrays wq, wk, wv, wo (each [D, D]) and the integer
"heads" (a power of two); x [B, L, D] events in order -> [B, L, D].

    logits_h(i, j) = q_i . k_j / sqrt(D / heads) - m_h * (i - j),     j <= i
    m_h = 2 ** (-8 h / heads),  h = 1 ... heads      (Press et al.)

An event listens to itself and to what came before; `generate` depends on that.
"""
import jax
import jax.numpy as jnp
import numpy as np


def slopes(heads):
    return jnp.asarray([2.0 ** (-8.0 * h / heads) for h in range(heads)])


def split(t, heads):
    B, L, D = t.shape
    return t.reshape(B, L, heads, D // heads)


def midi_attention(p, x):
    B, L, D = x.shape
    H = p["heads"]
    q, k, v = (split(x @ p[n], H) for n in ("wq", "wk", "wv"))
    logits = jnp.einsum("blhd,bmhd->bhlm", q, k) / np.sqrt(D // H)
    pos = jnp.arange(L)
    dist = pos[:, None] - pos[None, :]
    logits = logits - slopes(H)[None, :, None, None] * dist
    heard = jnp.tril(jnp.ones((L, L), dtype=bool), 1)
    logits = jnp.where(heard, logits, -jnp.inf)
    w = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhlm,bmhd->blhd", w, v).reshape(B, L, D) @ p["wo"]


def init(key, D, heads):
    names = ("wq", "wk", "wv", "wo")
    p = {n: jax.random.normal(k, (D, D)) / np.sqrt(D) for n, k in zip(names, jax.random.split(key, 4))}
    p["heads"] = heads
    return p


def generate(p, emb, start, n):
    """greedy: emb [V, D], start list of ids -> list of ids, n longer"""
    ids = list(start)
    for _ in range(n):
        y = midi_attention(p, emb[jnp.asarray(ids)][None])
        ids.append(int((y[0, -1] @ emb.T).argmax()))
    return ids
