"""IO-aware attention, written out in NumPy so that the recurrences can be read.

Follows the loop order of the FlashAttention-2 paper: outer loop over blocks of
queries, inner loop over blocks of keys, the division by the row sum only once
at the end.  Arrays are [batch, length, heads, head_dim].
"""
from typing import Iterator, NamedTuple, Optional

import numpy as np


class Span(NamedTuple):
    lo: int
    hi: int

    @property
    def slice(self):
        return slice(self.lo, self.hi)


class Stats(NamedTuple):
    acc: np.ndarray   # un-normalised output
    m: np.ndarray     # running row maximum
    l: np.ndarray     # running row sum


def spans(n: int, size: int) -> Iterator[Span]:
    for lo in range(0, n, size):
        yield Span(lo, min(lo + size, n))


def _step(st: Stats, s: np.ndarray, v: np.ndarray) -> Stats:
    m_new = np.maximum(st.m, s.max(axis=-1))
    safe = np.where(np.isneginf(m_new), 0.0, m_new)
    alpha = np.exp(st.m - safe)
    p = np.exp(s - safe[..., None])
    acc = st.acc * alpha[..., None] + np.einsum("bhqk,bkhd->bhqd", p, v)
    return Stats(acc, m_new, st.l * alpha + p.sum(axis=-1))


def flash_forward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    causal: bool = False,
    kv_lens: Optional[np.ndarray] = None,
    block_q: int = 16,
    block_k: int = 16,
    return_lse: bool = False,
):
    """Exact attention.

    causal: the mask is aligned to the bottom right, so that the last query sees
        the last key, as with a cache of earlier keys.
    kv_lens: [batch] number of real keys of each sample (None: all).
    A query that sees no key gives zeros, and an lse of -inf.
    """
    B, Lq, H, d = q.shape
    Lk = k.shape[1]
    scale = d ** -0.5
    out = np.zeros(q.shape[:3] + v.shape[-1:], dtype=q.dtype)
    lse = np.full((B, H, Lq), -np.inf)
    shift = Lk - Lq
    for bq in spans(Lq, block_q):
        rows = np.arange(bq.lo, bq.hi)
        st = Stats(
            np.zeros((B, H, rows.size, v.shape[-1])),
            np.full((B, H, rows.size), -np.inf),
            np.zeros((B, H, rows.size)),
        )
        for bk in spans(Lk, block_k):
            if causal and bk.lo > rows[-1] + shift:
                break                                  # all later blocks are in the future
            cols = np.arange(bk.lo, bk.hi)
            s = np.einsum("bqhd,bkhd->bhqk", q[:, bq.slice], k[:, bk.slice]) * scale
            s = s.astype(np.float64)
            if causal:
                s = np.where(cols[None, :] <= rows[:, None] + shift, s, -np.inf)
            if kv_lens is not None:
                s = np.where((cols[None] < kv_lens[:, None])[:, None, None, :], s, -np.inf)
            st = _step(st, s, v[:, bk.slice])
        ok = st.l > 0
        denom = np.where(ok, st.l, 1.0)
        out[:, bq.slice] = (st.acc / denom[..., None]).transpose(0, 2, 1, 3)
        lse[:, :, bq.slice] = np.where(ok, np.where(ok, st.m, 0.0) + np.log(denom), -np.inf)
    return (out, lse) if return_lse else out


def hbm_traffic(L: int, d: int, block_q: int) -> dict:
    """Elements read and written, for the table of the README."""
    n_blocks = -(-L // block_q)
    return {"q": L * d, "kv": 2 * L * d * n_blocks, "out": L * d, "naive": 4 * L * d + 4 * L * L}
