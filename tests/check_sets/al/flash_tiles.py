"""The forward pass of FlashAttention written out tile by tile in torch, as preparation for the
CUDA version (chapter 4 of the lab).  Nothing here is fast; the order of the operations is the
thing.  Result: softmax(Q K^T / sqrt(d)) V, causal on request, for any lengths (m >= n if causal).
"""
import math

import torch


def tiles(n, size):
    """[(start, stop), ...] covering range(n)"""
    return [(a, min(a + size, n)) for a in range(0, n, size)]


def naive(q, k, v, causal=False):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        n, m = s.shape[-2:]
        s = s.masked_fill(torch.ones(n, m, dtype=torch.bool).triu(m - n + 1), -math.inf)
    return s.softmax(-1) @ v


def flash_forward(q, k, v, causal=False, block_q=16, block_k=16):
    """q [..., n, d], k and v [..., m, d].  Returns the output and the natural log-sum-exp."""
    n, d = q.shape[-2:]
    m = k.shape[-2]
    shift = m - n                      # the last query is at the place of the last key
    scale = 1.0 / math.sqrt(d)
    out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    lse = torch.zeros(q.shape[:-1], dtype=q.dtype)

    for q0, q1 in tiles(n, block_q):
        qi = q[..., q0:q1, :] * scale
        row_max = torch.full(qi.shape[:-1], -1e30, dtype=q.dtype)
        row_sum = torch.zeros(qi.shape[:-1], dtype=q.dtype)
        acc = torch.zeros(*qi.shape[:-1], v.shape[-1], dtype=q.dtype)
        for k0, k1 in tiles(m, block_k):
            if causal and k0 > q1 - 1 + shift:
                break                  # whole tile lies in the future
            s = qi @ k[..., k0:k1, :].transpose(-1, -2)
            if causal:
                i = torch.arange(q0, q1)[:, None] + shift
                j = torch.arange(k0, k1)[None, :]
                s = s.masked_fill(j > i, -1e30)
            new_max = torch.maximum(row_max, s.amax(-1))
            p = torch.exp(s - new_max[..., None])
            alpha = torch.exp(row_max - new_max)
            row_sum = alpha * row_sum + p.sum(-1)
            acc = acc + p @ v[..., k0:k1, :]
            row_max = new_max
        out[..., q0:q1, :] = acc / row_sum[..., None]
        lse[..., q0:q1] = row_max + torch.log(row_sum)
    return out, lse


def flops(n, m, d, causal=False):
    """Multiply-adds of both products."""
    total = 2 * n * m * d
    return total // 2 if causal else total
