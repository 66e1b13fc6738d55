"""Go/chess board encoder: squares attend to squares, geometry as an additive table.

Geometry is prepared once with NumPy; the net is JAX.  Per square pair the table holds an
index of the displacement, and each head learns one number per displacement.
"""
import numpy as np
import jax
import jax.numpy as jnp

SIDE = 8


def displacement_index(side=SIDE):
    r, c = np.divmod(np.arange(side * side), side)
    dr = r[:, None] - r[None, :] + side - 1
    dc = c[:, None] - c[None, :] + side - 1
    return (dr * (2 * side - 1) + dc).astype(np.int32)


INDEX = displacement_index()


def queen_lines(side=SIDE):
    """bool [n, n]: the same row, column or diagonal (the square itself included)."""
    r, c = np.divmod(np.arange(side * side), side)
    dr, dc = r[:, None] - r[None, :], c[:, None] - c[None, :]
    return (dr == 0) | (dc == 0) | (np.abs(dr) == np.abs(dc))


def _one_head(q, k, v, bias, see):
    s = jnp.dot(q, k.T) * (q.shape[-1] ** -0.5) + bias
    s = jnp.where(see, s, -jnp.inf)
    return jax.nn.softmax(s, axis=-1) @ v


_heads = jax.vmap(_one_head, in_axes=(0, 0, 0, 0, None))
_batch = jax.vmap(_heads, in_axes=(0, 0, 0, None, None))


def board_attention(params, squares, lines_only=False):
    """squares [B, 64, C] -> [B, 64, C].  With lines_only a square sees its queen lines."""
    see = jnp.asarray(queen_lines() if lines_only else np.ones((SIDE**2, SIDE**2), bool))
    q, k, v = jnp.einsum("bnc,tchd->tbhnd", squares, params["qkv"])
    y = _batch(q, k, v, params["geo"][:, INDEX], see)
    return jnp.einsum("bhnd,hdc->bnc", y, params["out"])


def init(seed, c=12, heads=3):
    rng = np.random.default_rng(seed)
    d = c // heads
    return {
        "qkv": jnp.asarray(rng.normal(0, c ** -0.5, (3, c, heads, d)), jnp.float32),
        "geo": jnp.asarray(rng.normal(0, 0.3, (heads, (2 * SIDE - 1) ** 2)), jnp.float32),
        "out": jnp.asarray(rng.normal(0, c ** -0.5, (heads, d, c)), jnp.float32),
    }


def fen_planes(fen):
    pieces, out = "PNBRQKpnbrqk", np.zeros((64, 12), np.float32)
    sq = 0
    for ch in fen.split()[0].replace("/", ""):
        if ch.isdigit():
            sq += int(ch)
        else:
            out[sq, pieces.index(ch)] = 1
            sq += 1
    return out
