"""Slow but obvious version of the ragged prefill, used as fallback when there is no GPU.

Checkpoints are Mistral / Llama: consecutive query heads share one kv head.
"""
import numpy as np

NEG = -np.inf


def sdpa(q, k, v):
    # q (n, d)  k (n, d)  v (n, d)
    n, d = q.shape
    s = q @ k.T * (1.0 / np.sqrt(d))
    s = np.where(np.tril(np.ones((n, n), bool)), s, NEG)
    s = np.exp(s - s.max(1)[:, None])
    return (s / s.sum(1)[:, None]) @ v


def ragged_prefill(q, k, v, cu_seqlens):
    """q (total, n_head, d); k and v (total, n_kv, d); cu_seqlens [0, len0, len0+len1, ...]"""
    total, n_head, d = q.shape
    n_kv = k.shape[1]
    assert n_head % n_kv == 0
    assert cu_seqlens[-1] == total
    o = np.zeros_like(q)
    for i in range(len(cu_seqlens) - 1):
        seq = slice(cu_seqlens[i], cu_seqlens[i + 1])
        for h in range(n_head):
            kv = h % n_kv
            o[seq, h] = sdpa(q[seq, h], k[seq, kv], v[seq, kv])
    return o
