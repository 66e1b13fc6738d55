"""Local attention by blocks: each block of `w` queries reads its own block and the block
before it, so the cost is O(n w) -- the scheme of Image Transformer / Sinkhorn / Routing.
"""
import math

import numpy as np


def look_back(x, pad_value=0.0):
    """(..., n_blocks, w, d) -> (..., n_blocks, 2w, d): previous block and this block."""
    prev = np.full_like(x, pad_value)
    prev[..., 1:, :, :] = x[..., :-1, :, :]
    return np.concatenate([prev, x], axis=-2)


def local_attention(q, k, v, w, key_len=None, exact_window=True):
    """Causal local attention.

    q, k, v : (B, H, N, D) with any N (the tail is padded inside)
    w       : block size; with exact_window every query sees exactly itself and up to
              w keys before it, otherwise everything in its two blocks that is not later
    key_len : (B,) optional true lengths; keys at or after it are not seen
    returns (B, H, N, D); queries that see nothing give 0
    """
    B, H, N, D = q.shape
    nb = math.ceil(N / w)
    extra = nb * w - N
    if extra:
        width = ((0, 0), (0, 0), (0, extra), (0, 0))
        q, k, v = np.pad(q, width), np.pad(k, width), np.pad(v, width)

    qb = q.reshape(B, H, nb, w, D)
    kb = look_back(k.reshape(B, H, nb, w, D))
    vb = look_back(v.reshape(B, H, nb, w, D))

    t = np.arange(nb * w).reshape(nb, w)
    tk = look_back(t[..., None], pad_value=-1)[..., 0]

    rel = t[:, :, None] - tk[:, None, :]
    see = (tk[:, None, :] >= 0) & (rel >= 0)
    if exact_window:
        see &= rel <= w
    see = np.broadcast_to(see[None, None], (B, 1, nb, w, 2 * w))
    if key_len is not None:
        see = see & (tk[None, None, :, None, :] < np.asarray(key_len)[:, None, None, None, None])

    dots = np.einsum("bhnid,bhnjd->bhnij", qb, kb) * D ** -0.5
    dots = np.where(see, dots, -np.inf)
    m = dots.max(-1, keepdims=True)
    m = np.where(np.isneginf(m), 0.0, m)
    e = np.exp(dots - m)
    den = e.sum(-1, keepdims=True)
    attn = np.divide(e, den, out=np.zeros_like(e), where=den > 0)

    out = np.einsum("bhnij,bhnjd->bhnid", attn, vb).reshape(B, H, nb * w, D)
    return out[:, :, :N]
