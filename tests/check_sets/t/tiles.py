import math
import torch


def tiled_attention(q, k, v, causal=False, bq=16, bk=16):
    n, m = q.shape[-2], k.shape[-2]
    scale = 1 / math.sqrt(q.shape[-1])
    out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    lse = torch.empty(q.shape[:-1], dtype=q.dtype)
    for i in range(0, n, bq):
        qi = q[..., i:i + bq, :] * scale
        rows = torch.arange(i, min(i + bq, n)) + (m - n)
        mi = torch.full(qi.shape[:-1], -math.inf, dtype=q.dtype)
        li = torch.zeros_like(mi)
        acc = torch.zeros(*qi.shape[:-1], v.shape[-1], dtype=q.dtype)
        for j in range(0, m, bk):
            if causal and j > rows[-1]:
                break
            s = qi @ k[..., j:j + bk, :].transpose(-2, -1)
            if causal:
                cols = torch.arange(j, min(j + bk, m))
                s = torch.where(cols <= rows[:, None], s, -math.inf)
            m_new = torch.maximum(mi, s.amax(-1))
            safe = torch.where(m_new == -math.inf, 0.0, m_new)
            p = torch.exp(s - safe[..., None])
            c = torch.exp(mi - safe)
            li = c * li + p.sum(-1)
            acc = c[..., None] * acc + p @ v[..., j:j + bk, :]
            mi = m_new
        den = torch.where(li == 0, 1.0, li)
        out[..., i:i + bq, :] = acc / den[..., None]
        lse[..., i:i + bq] = mi + torch.log(den)
    return out, lse
