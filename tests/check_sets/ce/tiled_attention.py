"""Exact attention in tiles, after FlashAttention-2 (Dao 2023), for the lecture notes.

Pure NumPy so that every line can be read. The whole score matrix is never formed:
for each block of queries we walk over the blocks of keys and carry the running
maximum m, the running denominator l and the unnormalised output acc. With
`causal` the queries are aligned to the END of the keys (query i of Lq stands at
position Lk - Lq + i), and tiles that lie wholly in the future are skipped.

    q [..., Lq, d]   k [..., Lk, d]   v [..., Lk, e]
    out [..., Lq, e]   lse [..., Lq]   natural log-sum-exp of the scaled logits

A query that may see nothing gets zeros and lse = -inf.
"""
import numpy as np


def tiled_attention(q, k, v, causal=False, scale=None, block_q=4, block_k=4):
    Lq, d = q.shape[-2:]
    Lk = k.shape[-2]
    if v.shape[-2] != Lk:
        raise ValueError(f"k has {Lk} rows but v has {v.shape[-2]}")
    scale = d ** -0.5 if scale is None else scale
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    out = np.zeros(lead + (Lq, v.shape[-1]))
    lse = np.full(lead + (Lq,), -np.inf)

    for i0 in range(0, Lq, block_q):
        qi = q[..., i0:i0 + block_q, :] * scale
        rows = qi.shape[-2]
        q_pos = Lk - Lq + np.arange(i0, i0 + rows)
        m = np.full(lead + (rows,), -np.inf)
        l = np.zeros(lead + (rows,))
        acc = np.zeros(lead + (rows, v.shape[-1]))
        for j0 in range(0, Lk, block_k):
            if causal and j0 > q_pos[-1]:
                break
            kj = k[..., j0:j0 + block_k, :]
            s = qi @ np.swapaxes(kj, -1, -2)
            if causal:
                k_pos = np.arange(j0, j0 + kj.shape[-2])
                s = np.where(k_pos[None, :] <= q_pos[:, None], s, -np.inf)
            m_new = np.maximum(m, s.max(axis=-1))
            base = np.where(np.isneginf(m_new), 0.0, m_new)   # nothing seen so far
            p = np.exp(s - base[..., None])
            alpha = np.exp(m - base)
            l = l * alpha + p.sum(axis=-1)
            acc = acc * alpha[..., None] + p @ v[..., j0:j0 + block_k, :]
            m = m_new
        seen = l > 0
        safe = np.where(seen, l, 1.0)
        out[..., i0:i0 + rows, :] = acc / safe[..., None]
        lse[..., i0:i0 + rows] = np.where(seen, m + np.log(safe), -np.inf)
    return out, lse


def attention_layer(x, w_qkv, w_o, heads):
    """Multi-head causal self-attention on x [B, L, D] with packed w_qkv [D, 3, heads, d]."""
    q, k, v = np.einsum("bld,dchx->cbhlx", x, w_qkv)
    y, _ = tiled_attention(q, k, v, causal=True)
    return np.einsum("bhlx,hxd->bld", y, w_o)
