"""ALiBi attention for newspaper archive language models."""
import math

import torch


def slopes(n: int) -> torch.Tensor:
    """Head slopes of the ALiBi paper, also for n that is no power of two."""
    def geometric(m):
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]

    p = 2 ** int(math.floor(math.log2(n)))
    s = geometric(p)
    if p != n:
        # fill up with every second slope of the next finer series
        s += geometric(2 * p)[0::2][: n - p]
    return torch.tensor(s)


def alibi_attention(q, k, v, attention_mask=None):
    """
    Causal attention with linear distance penalty.

    q: (B, H, Lq, D);  k, v: (B, H, Lk, D), Lk >= Lq.
    The last query stands at the last key (keys before it may be a cache).
    attention_mask: (B, Lk) of 1 / 0, 1 = real token, 0 = padding.
    A query with nothing to look at gives zeros.
    Returns (B, H, Lq, D).
    """
    B, H, Lq, D = q.shape
    Lk = k.shape[2]
    i = torch.arange(Lk - Lq, Lk, device=q.device)
    j = torch.arange(Lk, device=q.device)
    gap = (i[:, None] - j[None, :])                      # >= 0 in the past
    s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(D)
    s = s - slopes(H).to(s).view(H, 1, 1) * gap.to(s.dtype)
    allowed = (gap >= 0).expand(B, 1, Lq, Lk)
    if attention_mask is not None:
        allowed = allowed & attention_mask.bool()[:, None, None, :]
    s = torch.where(allowed, s, torch.finfo(s.dtype).min)
    w = torch.softmax(s.float(), dim=-1).to(v.dtype)
    w = w * allowed.any(dim=-1, keepdim=True)
    return w @ v
