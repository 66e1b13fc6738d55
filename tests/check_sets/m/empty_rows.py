import torch


def safe_attention(q, k, v, allowed):
    """allowed (B, 1, T, S) bool, True = may attend.  A query that may attend to nothing gets zeros."""
    s = torch.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
    s = s.masked_fill(~allowed, float("-inf"))
    p = torch.softmax(s, dim=-1)
    return torch.einsum("bhts,bhsd->bhtd", p, v)
