import torch


def topk_attention(q, k, v, keep: int):
    """Each query attends only to the `keep` keys with the highest scores; the softmax runs over those.  q, k, v (B, H, N, D)."""
    s = torch.matmul(q, k.transpose(-1, -2)) / q.size(-1) ** 0.5
    kth = s.topk(keep, dim=-1).values[..., -1:]
    s = torch.where(s < kth, torch.full_like(s, float("-inf")), s)
    return torch.matmul(s.softmax(dim=-1), v)
