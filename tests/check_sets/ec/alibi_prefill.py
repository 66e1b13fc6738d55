"""Chunked prefill with ALiBi (Press et al., "Train short, test long").

The bias penalises distance: -m_h * (i - j) is added to the scaled score of query i and
key j <= i, so nearby keys are preferred.  For n heads (n a power of two) the slopes are
the geometric sequence that starts at 2^(-8/n) and uses the same value as its ratio:
n = 8 gives 1/2, 1/4, ..., 1/256.

q        (B, H, C, d)   the chunk being prefilled
k, v     (B, H, L, d)   everything up to and including the chunk (L >= C)
returns  (B, H, C, d)
"""
import torch


def get_slopes(n_heads: int) -> torch.Tensor:
    assert n_heads & (n_heads - 1) == 0, "power of two expected"
    h = torch.arange(n_heads, dtype=torch.float32)
    return torch.pow(2.0, -8.0 * h / n_heads)


def distance(C: int, L: int, device=None) -> torch.Tensor:
    """(C, L) query position minus key position; the chunk is the tail of L."""
    qpos = torch.arange(C, device=device) + (L - C)
    return qpos[:, None] - torch.arange(L, device=device)[None, :]


def prefill_attention(q, k, v):
    C, d = q.shape[-2:]
    L = k.shape[-2]
    dist = distance(C, L, q.device)
    slopes = get_slopes(q.shape[1]).to(q.device)
    scores = torch.matmul(q, k.transpose(-1, -2)) * d ** -0.5
    scores = scores + slopes.view(-1, 1, 1) * dist
    scores = scores.masked_fill(dist < 0, float("-inf"))
    return torch.matmul(scores.softmax(dim=-1), v)
