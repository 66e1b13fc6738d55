import math
import torch


def slopes(n):
    start = 2 ** (-8 / n)
    return torch.tensor([start ** (i + 1) for i in range(n)])


def lag(T, S):
    here = torch.arange(S - T, S).view(-1, 1)
    return here - torch.arange(S).view(1, -1)


def recent_mix(q, k, v):
    """Causal attention with linear recency penalty (ALiBi) over a user's purchases.

    q (B, n, T, d) are the newest T of S steps, k and v (B, n, S, d); n a power of two.
    """
    n, T, S = q.size(1), q.size(2), k.size(2)
    back = lag(T, S).to(q.device)
    bias = slopes(n).to(q).view(n, 1, 1) * back
    s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
    s = s + bias
    s = s.masked_fill(back < 0, float("-inf"))
    return torch.matmul(torch.softmax(s, dim=-1), v)
