"""Line by line port of our Triton forward kernel to PyTorch so that it can be stepped through.

One call of `_program` is one program instance. causal=True: query m sees keys 0..m.
"""
import math

import torch

NEG = float("-inf")


def cdiv(a, b):
    return (a + b - 1) // b


def _load(x, offs, n):
    """masked load with 0 for rows outside"""
    ok = offs < n
    y = x[offs.clamp(max=n - 1)]
    return torch.where(ok[:, None], y, torch.zeros((), dtype=y.dtype))


def _program(pid_m, q, k, v, out, lse, causal, sm_scale, BLOCK_M, BLOCK_N):
    n_q, n_k, d = q.shape[0], k.shape[0], q.shape[1]
    offs_m = pid_m * BLOCK_M + torch.arange(BLOCK_M)
    offs_n = torch.arange(BLOCK_N)
    q_blk = _load(q, offs_m, n_q).float() * sm_scale
    m_i = torch.full((BLOCK_M,), NEG)
    l_i = torch.zeros(BLOCK_M)
    acc = torch.zeros(BLOCK_M, v.shape[1])
    hi = min(n_k, (pid_m + 1) * BLOCK_M) if causal else n_k
    for start_n in range(0, hi, BLOCK_N):
        cols = start_n + offs_n
        k_blk = _load(k, cols, n_k).float()
        v_blk = _load(v, cols, n_k).float()
        s = q_blk @ k_blk.T
        keep = (cols < n_k)[None, :].expand(BLOCK_M, -1)
        if causal:
            keep = keep & (offs_m[:, None] + 1 >= cols[None, :])
        s = torch.where(keep, s, torch.full_like(s, NEG))
        m_new = torch.maximum(m_i, s.amax(1))
        m_safe = torch.where(m_new == NEG, torch.zeros_like(m_new), m_new)
        p = torch.exp(s - m_safe[:, None])
        alpha = torch.exp(m_i - m_safe)
        l_i = l_i * alpha + p.sum(1)
        acc = acc * alpha[:, None] + p @ v_blk
        m_i = m_new
    rows = offs_m < n_q
    out[offs_m[rows]] = (acc / l_i[:, None])[rows].to(out.dtype)
    lse[offs_m[rows]] = (m_i + torch.log(l_i))[rows]


def attention_forward(q, k, v, causal=False, sm_scale=None, BLOCK_M=16, BLOCK_N=16):
    """q, k, v: [Z, H, N, D] -> out, lse [Z, H, N]"""
    Z, H, N, D = q.shape
    sm_scale = 1.0 / math.sqrt(D) if sm_scale is None else sm_scale
    out = torch.empty(Z, H, N, v.shape[-1], dtype=q.dtype)
    lse = torch.empty(Z, H, N, dtype=torch.float32)
    for z in range(Z):
        for h in range(H):
            for pid_m in range(cdiv(N, BLOCK_M)):
                _program(pid_m, q[z, h], k[z, h], v[z, h], out[z, h], lse[z, h],
                         causal, sm_scale, BLOCK_M, BLOCK_N)
    return out, lse


def flops(Z, H, N, D, causal):
    f = 4.0 * Z * H * N * N * D
    return f / 2 if causal else f
