"""
Companion code for the post "FlashAttention, by hand".

Algorithm 1 of the FlashAttention-2 paper with NumPy arrays standing in for SRAM tiles. Slow on purpose; the point
is that no array in here is ever larger than Br x Bc.
"""
import math
from typing import Tuple

import numpy as np


def flash_attention_forward(
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    causal: bool = False,
    Br: int = 4,
    Bc: int = 4,
) -> Tuple[np.ndarray, np.ndarray]:
    """
    Q: (batch, heads, N, d)
    K: (batch, heads, M, d)
    V: (batch, heads, M, d)

    Returns O (batch, heads, N, d) and the row-wise logsumexp L (batch, heads, N).
    With causal=True queries and keys are aligned at the end, as flash-attn >= 2.1 does.
    """
    B, H, N, d = Q.shape
    M = K.shape[2]
    scale = 1.0 / math.sqrt(d)
    shift = M - N

    O = np.zeros((B, H, N, V.shape[-1]), dtype=Q.dtype)
    L = np.zeros((B, H, N), dtype=Q.dtype)

    for i0 in range(0, N, Br):
        i1 = min(i0 + Br, N)
        Qi = Q[:, :, i0:i1] * scale
        Oi = np.zeros((B, H, i1 - i0, V.shape[-1]), dtype=Q.dtype)
        li = np.zeros((B, H, i1 - i0, 1), dtype=Q.dtype)
        mi = np.full((B, H, i1 - i0, 1), -np.inf, dtype=Q.dtype)

        for j0 in range(0, M, Bc):
            j1 = min(j0 + Bc, M)
            if causal and j0 > i1 - 1 + shift:
                break  # the whole tile lies above the diagonal
            Sij = Qi @ K[:, :, j0:j1].swapaxes(-1, -2)
            if causal:
                rows = np.arange(i0, i1)[:, None] + shift
                cols = np.arange(j0, j1)[None, :]
                Sij = np.where(cols <= rows, Sij, -np.inf)

            m_new = np.maximum(mi, Sij.max(axis=-1, keepdims=True))
            m_safe = np.where(np.isneginf(m_new), 0.0, m_new)
            Pij = np.exp(Sij - m_safe)
            alpha = np.exp(mi - m_safe)
            li = alpha * li + Pij.sum(axis=-1, keepdims=True)
            Oi = alpha * Oi + Pij @ V[:, :, j0:j1]
            mi = m_new

        denom = np.where(li == 0.0, 1.0, li)
        O[:, :, i0:i1] = Oi / denom
        with np.errstate(divide="ignore"):
            L[:, :, i0:i1] = (mi + np.log(li))[..., 0]
    return O, L
