"""Pure PyTorch stand-in for a variable-length fused attention kernel.

Used in CI where no CUDA device is present. Sequences are packed one after
another: q is (total_q, nheads, d), k and v are (total_k, nheads_k, d), and
cu_seqlens_* are int32 prefix sums of length batch+1.

causal=True aligns the mask to the bottom right corner; queries that see no
key give 0 and lse = -inf.
"""
from typing import Optional

import torch

__all__ = ["varlen_attention"]


def _one_sequence(q, k, v, scale, causal, block_m, block_n):
    # q (H, M, d)  k, v (H, N, d), float32
    H, M, d = q.shape
    N = k.shape[1]
    off = N - M
    out = q.new_zeros(H, M, v.shape[-1])
    lse = q.new_full((H, M), float("-inf"))
    for m0 in range(0, M, block_m):
        m1 = min(m0 + block_m, M)
        qi = q[:, m0:m1] * scale
        acc = q.new_zeros(H, m1 - m0, v.shape[-1])
        l_i = q.new_zeros(H, m1 - m0)
        m_i = q.new_full((H, m1 - m0), float("-inf"))
        last = N if not causal else max(0, min(N, m1 + off))
        for n0 in range(0, last, block_n):
            n1 = min(n0 + block_n, N)
            s = qi @ k[:, n0:n1].mT
            if causal:
                rows = torch.arange(m0, m1, device=q.device)[:, None] + off
                cols = torch.arange(n0, n1, device=q.device)[None, :]
                s = torch.where(rows >= cols, s, float("-inf"))
            m_new = torch.maximum(m_i, s.amax(-1))
            safe = torch.where(m_new == float("-inf"), torch.zeros_like(m_new), m_new)
            p = torch.exp(s - safe[..., None])
            alpha = torch.exp(m_i - safe)
            l_i = l_i * alpha + p.sum(-1)
            acc = acc * alpha[..., None] + p @ v[:, n0:n1]
            m_i = m_new
        dead = l_i == 0
        l_safe = torch.where(dead, torch.ones_like(l_i), l_i)
        out[:, m0:m1] = acc / l_safe[..., None]
        lse[:, m0:m1] = torch.where(dead, torch.full_like(m_i, float("-inf")), m_i + torch.log(l_safe))
    return out, lse


def varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale: Optional[float] = None,
                     causal=False, return_lse=False, block_m=16, block_n=16):
    if softmax_scale is None:
        softmax_scale = q.shape[-1] ** -0.5
    rep, rem = divmod(q.shape[1], k.shape[1])
    if rem:
        raise ValueError("nheads must be a multiple of nheads_k")
    if k.shape[0] != v.shape[0]:
        raise ValueError("k and v differ in length")
    out = torch.empty(q.shape[0], q.shape[1], v.shape[-1], dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    cq, ck = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for a, b, c, e in zip(cq[:-1], cq[1:], ck[:-1], ck[1:]):
        if a == b:
            continue
        qs = q[a:b].transpose(0, 1).float()
        ks = k[c:e].transpose(0, 1).float().repeat_interleave(rep, 0)
        vs = v[c:e].transpose(0, 1).float().repeat_interleave(rep, 0)
        o, l = _one_sequence(qs, ks, vs, softmax_scale, causal, block_m, block_n)
        out[a:b] = o.transpose(0, 1).to(q.dtype)
        lse[:, a:b] = l
    return (out, lse) if return_lse else out
