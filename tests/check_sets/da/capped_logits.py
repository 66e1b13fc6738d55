import torch


def capped(q, k, v, cap=5.0, allow=None):
    """Scaled dot-product attention with soft-capped logits.

    q (B, H, T, D)  k, v (B, H, S, D)
    allow (B, 1 or H, T, S) bool: True lets the query use the key, at least one in a row
    Logits are bounded to (-cap, cap).
    """
    s = torch.einsum("bhtd,bhsd->bhts", q, k).float()
    if allow is not None:
        s = torch.where(allow, s, torch.tensor(float("-inf")).to(s))
    s = cap * torch.tanh(s / cap)
    w = torch.softmax(s, dim=-1)
    return torch.einsum("bhts,bhsd->bhtd", w.to(v.dtype), v)
