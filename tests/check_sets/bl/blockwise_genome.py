"""Blockwise attention for long DNA windows (JAX), block masks planned in NumPy.

`plan_blocks` decides on the host which key blocks a query block needs (sliding window of
+-`radius` bases plus `n_global` global positions at the front); the device code scans over
exactly these blocks with an online softmax.
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np

BASES = {"A": 0, "C": 1, "G": 2, "T": 3, "N": 4}


def one_hot_dna(seq):
    return np.eye(5, dtype=np.float32)[[BASES.get(c, 4) for c in seq]]


def plan_blocks(n, block, radius, n_global):
    """(n_blocks, width) int32 indices of key blocks, -1 = no block"""
    nb = n // block
    rows = []
    for i in range(nb):
        lo = max(0, i * block - radius) // block
        hi = min(n - 1, i * block + block - 1 + radius) // block
        need = set(range(lo, hi + 1)) | set(range(-(-n_global // block)))
        if i * block < n_global:
            need = set(range(nb))
        rows.append(sorted(need))
    width = max(map(len, rows))
    return np.array([r + [-1] * (width - len(r)) for r in rows], dtype=np.int32)


@functools.partial(jax.jit, static_argnames=("block", "radius", "n_global"))
def _attend(q, k, v, plan, block, radius, n_global):
    n, d = q.shape
    nb = n // block
    qb, kb, vb = (t.reshape(nb, block, -1) for t in (q * d ** -0.5, k, v))

    def one_query_block(qi, i, cols):
        pos_q = i * block + jnp.arange(block)

        def body(carry, j):
            m, l, acc = carry
            pos_k = j * block + jnp.arange(block)
            near = jnp.abs(pos_q[:, None] - pos_k[None, :]) <= radius
            glob = (pos_q[:, None] < n_global) | (pos_k[None, :] < n_global)
            ok = (near | glob) & (j >= 0)
            s = jnp.where(ok, qi @ kb[j].T, -jnp.inf)
            m_new = jnp.maximum(m, s.max(-1))
            safe = jnp.where(jnp.isfinite(m_new), m_new, 0.0)
            p = jnp.exp(s - safe[:, None])
            c = jnp.exp(m - safe)
            return (m_new, l * c + p.sum(-1), acc * c[:, None] + p @ vb[j]), None

        start = (jnp.full(block, -jnp.inf), jnp.zeros(block), jnp.zeros((block, v.shape[-1])))
        (_, l, acc), _ = jax.lax.scan(body, start, cols)
        return acc / l[:, None]

    out = jax.vmap(one_query_block)(qb, jnp.arange(nb), plan)
    return out.reshape(n, -1)


def genome_attention(q, k, v, block=16, radius=24, n_global=1):
    """Longformer-like attention of one head.

    q, k (n, d), v (n, dv).  Position i sees j if |i - j| <= radius, or if i or j is one of the first
    n_global positions.  n must be a multiple of block.
    """
    n = q.shape[0]
    if n % block:
        raise ValueError(f"{n} bases are not a multiple of {block}")
    plan = plan_blocks(n, block, radius, n_global)
    return _attend(q, k, v, jnp.asarray(plan), block, radius, n_global)


def multi_head(params, x, heads):
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    split = lambda t: t.reshape(len(x), heads, -1).swapaxes(0, 1)
    y = jnp.stack([genome_attention(*h) for h in zip(split(q), split(k), split(v))], axis=1)
    return y.reshape(len(x), -1) @ params["out"]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    seq = "".join(rng.choice(list("ACGT"), 128))
    emb = one_hot_dna(seq) @ rng.normal(size=(5, 32)).astype(np.float32)
    params = {"qkv": rng.normal(size=(32, 96)).astype(np.float32) / 6, "out": np.eye(32, dtype=np.float32)}
    print(multi_head(params, jnp.asarray(emb), 4).shape)
